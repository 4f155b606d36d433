"""A search finds the lines that the expression matches, however they lie in blocks."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, strategies as st

from toolstile_plugins.vfs import text_files as text
from toolstile_plugins.vfs.nodes import InMemory
from toolstile_plugins.vfs.text_files import MAX_LINE_CHARACTERS, Search

EXPRESSIONS = ["a", "^a", "a$", "^$", "ab", "b.a", "a|b", "^[^a]*$", r"\Aa", r"a\z", r"(?s)a.b"]


def found(pattern: str, data: bytes) -> list[tuple[int, str]]:
    return [(each.line, each.text) for each in Search(pattern).lines("a.txt", InMemory(data))]


@pytest.mark.slow
@given(
    st.sampled_from(EXPRESSIONS),
    st.text(alphabet="ab\né\r", max_size=60),
    st.integers(1, 9),
)
def test_finds_what_a_look_at_each_line_finds(pattern: str, content: str, block: int) -> None:
    expected = [
        (number, line.removesuffix("\r"))
        for number, line in enumerate(content.removesuffix("\n").split("\n"), 1)
        if content and re.search(pattern.replace(r"\z", r"\Z"), line.removesuffix("\r"))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_BLOCK_BYTES", block)
        assert found(pattern, content.encode()) == expected


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("block", [3, 1 << 20])
def test_a_byte_order_mark_is_no_part_of_the_first_line(
    encoding: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "_BLOCK_BYTES", block)
    data = "one\n\ufeffone\n".encode(encoding)

    assert found("^one$", data) == [(1, "one")]


def test_a_line_that_matches_in_many_places_is_told_once() -> None:
    data = b"x" * 3_500_000 + b"\nx\n"

    (first, second) = found("x", data)
    assert first[0] == 1
    assert first[1].endswith(f"({3_500_000 - MAX_LINE_CHARACTERS} more characters)")
    assert second == (2, "x")


@pytest.mark.slow
def test_a_line_of_many_megabytes_is_found_in_time_that_grows_with_it() -> None:
    began = time.process_time()
    assert [line for line, _ in found("needle$", b"x" * 60_000_000 + b"needle\n")] == [1]
    assert time.process_time() - began < 20


@pytest.mark.slow
def test_what_turns_out_to_be_binary_is_searched_no_further() -> None:
    data = b"needle\n" * 200_000 + b"\xe9\x01\n" + b"needle\n" * 200_000

    lines = [line for line, _ in found("needle", data)]
    assert lines == list(range(1, len(lines) + 1))
    assert len(lines) < 200_001
