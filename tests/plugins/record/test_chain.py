"""Whatever is done to the lines of a record after they were written is found, and named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from toolstile_plugins.record.file import START, Chain, Damage, Fault, read_link, seal


def written(*contents: object) -> list[bytes]:
    lines: list[bytes] = []
    last = START
    for number, content in enumerate(contents, 1):
        line, last = seal(number, last, json.dumps({"said": content}))
        lines.append(line)
    return lines


def faults(lines: list[bytes]) -> list[Fault]:
    chain = Chain()
    list(chain.follow(_as_file(b"".join(lines))))
    return chain.faults


def _as_file(content: bytes) -> list[bytes]:
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def damages(lines: list[bytes]) -> list[tuple[int, Damage]]:
    return [(each.line, each.damage) for each in faults(lines)]


FIVE = written("a", "b", "c", "d", "e")


def test_lines_as_they_were_written_have_no_fault():
    chain = Chain()
    assert [text for _, text in chain.follow(FIVE)] == [line[:-1] for line in FIVE]
    assert (chain.faults, chain.lines) == ([], 5)
    link = read_link(FIVE[-1][:-1])
    assert link is not None
    assert chain.last == link.hash


def test_each_line_is_json_with_its_place():
    third = json.loads(FIVE[2])
    assert third["n"] == 3
    assert third["prev"] == json.loads(FIVE[1])["hash"]
    assert third["said"] == "c"


def test_the_rest_of_a_line_that_is_written_meanwhile_is_no_changed_line():
    chain = Chain()
    read = [*FIVE[:2], FIVE[2][:20], FIVE[2][20:], *FIVE[3:]]
    assert [number for number, _ in chain.follow(read)] == [1, 2]
    assert [(each.line, each.damage) for each in chain.faults] == [(3, Damage.TORN)]


def test_a_changed_line_is_named_and_no_other():
    changed = FIVE.copy()
    changed[2] = changed[2].replace(b'"c"', b'"x"')
    assert damages(changed) == [(3, Damage.CHANGED)]
    assert "hash does not fit" in faults(changed)[0].text


def test_lines_of_which_only_the_ends_were_changed_say_so():
    found = faults([line[:-1] + b"\r\n" for line in FIVE])
    assert {each.damage for each in found} == {Damage.CHANGED}
    assert len(found) == 5
    assert "made its end CR LF" in found[0].text


def test_a_removed_line_is_named():
    assert damages([*FIVE[:2], *FIVE[3:]]) == [(3, Damage.MISSING)]
    assert "number 3 of the record is missing" in faults([*FIVE[:2], *FIVE[3:]])[0].text
    assert "numbers 3 to 4 of the record are missing" in faults([*FIVE[:2], FIVE[4]])[0].text


def test_removed_lines_are_counted():
    assert "numbers 1 to 3 of the record are missing" in faults(FIVE[3:])[0].text


def test_a_torn_last_line_is_named():
    assert damages([*FIVE[:4], FIVE[4][:-9]]) == [(5, Damage.TORN)]
    assert damages([*FIVE[:4], FIVE[4][:-2]]) == [(5, Damage.TORN)]


@pytest.mark.parametrize(
    "end", [b"\0" * 9, b"\0" * 9 + b"\n", FIVE[4][:40] + b"\0" * 5000 + b"\n", b"\0"]
)
def test_a_last_line_with_nuls_is_torn(end):
    assert damages([*FIVE[:4], end]) == [(5, Damage.TORN)]
    chain = Chain()
    assert len(list(chain.follow([*FIVE[:4], end]))) == 4
    assert damages([*FIVE[:3], FIVE[3][:40] + b"\0\n", FIVE[4]])[0] == (4, Damage.CHANGED)


def test_a_byte_order_mark_before_a_record_does_no_harm():
    chain = Chain()
    marked = [b"\xef\xbb\xbf" + FIVE[0], *FIVE[1:]]
    assert [text for _, text in chain.follow(marked)] == [line[:-1] for line in FIVE]
    assert (chain.faults, chain.is_one) == ([], True)
    assert damages([FIVE[0], b"\xef\xbb\xbf" + FIVE[1]]) == [(2, Damage.CHANGED)]


def test_a_last_line_that_lacks_only_its_newline_is_whole():
    assert damages([*FIVE[:4], FIVE[4][:-1]]) == []
    assert damages([*FIVE[:3], FIVE[4][:-1]]) == [(4, Damage.MISSING)]


def test_what_was_replaced_after_a_changed_line_is_named_too():
    changed = [FIVE[0].replace(b'"a"', b'"x"'), *FIVE[1:3]]
    other = written("a", "b", "c", "other")[3]
    assert damages([*changed, other, FIVE[4]]) == [(1, Damage.CHANGED), (5, Damage.REPLACED)]


def test_a_repeated_line_is_named():
    assert damages([*FIVE[:3], FIVE[1], *FIVE[3:]]) == [(4, Damage.MISPLACED)]


def test_a_line_put_in_with_a_right_hash_is_named_by_the_next():
    first = read_link(FIVE[0][:-1])
    assert first is not None
    forged, _ = seal(2, first.hash, '{"said":"forged"}')
    assert damages([FIVE[0], forged, *FIVE[1:]])[0] == (3, Damage.MISPLACED)


def test_a_line_replaced_with_a_right_hash_is_named_by_the_next():
    first = read_link(FIVE[0][:-1])
    assert first is not None
    forged, _ = seal(2, first.hash, '{"said":"forged"}')
    assert damages([FIVE[0], forged, *FIVE[2:]]) == [(3, Damage.REPLACED)]


def test_moved_lines_are_named():
    assert damages([FIVE[0], FIVE[2], FIVE[1], *FIVE[3:]]) == [
        (2, Damage.MISSING),
        (3, Damage.MISPLACED),
    ]


contents = st.lists(
    st.one_of(st.text(max_size=20), st.integers(), st.lists(st.booleans(), max_size=3)),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@given(contents, st.data())
def test_any_changed_byte_is_found_at_its_line(said, data):
    text = b"".join(written(*said))
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[at]))
    changed = text[:at] + bytes([other]) + text[at + 1 :]
    line = text.count(b"\n", 0, at) + 1
    assert line in [each.line for each in faults([changed])]


@pytest.mark.slow
@given(contents.filter(lambda said: len(said) > 1), st.data())
def test_any_removal_but_at_the_end_is_found(said, data):
    lines = written(*said)
    gone = data.draw(st.integers(0, len(lines) - 2))
    assert damages([*lines[:gone], *lines[gone + 1 :]]) == [(gone + 1, Damage.MISSING)]


@pytest.mark.slow
@given(contents.filter(lambda said: len(said) > 1), st.data())
def test_any_two_lines_in_each_others_place_are_found(said, data):
    lines = written(*said)
    one = data.draw(st.integers(0, len(lines) - 2))
    other = data.draw(st.integers(one + 1, len(lines) - 1))
    lines[one], lines[other] = lines[other], lines[one]
    assert one + 1 in [each.line for each in faults(lines)]


@pytest.mark.slow
@given(contents, st.integers(1, 10_000))
def test_a_file_that_ends_in_the_middle_of_a_line_has_a_torn_end(said, cut):
    lines = written(*said)
    text = b"".join(lines)
    text = text[: len(text) - 1 - cut % (len(text) - 1)]
    rest = text[text.rfind(b"\n") + 1 :]
    torn = bool(rest) and rest + b"\n" not in lines
    assert [each.damage for each in faults([text])] == ([Damage.TORN] if torn else [])


@pytest.mark.parametrize("text", [b"", b"{}", b'{"n":0,"prev":""}', b"\xff\xfe"])
def test_what_is_no_line_of_a_record_has_no_place(text):
    assert read_link(text) is None
