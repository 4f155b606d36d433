"""Calls are read from JSON Lines and from conversations, and faults are told with their line."""

import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from toolstile_cli.call_reader import read_arguments, read_source, read_turns
from toolstile_cli.errors import UsageError
from toolstile_hookspecs import ToolCall


class Chat:
    """A dialect that knows documents with a list of turns, and single turns one a line."""

    name = "chat"

    def recorded(self, document):
        turns = document.get("turns") if isinstance(document, dict) else document
        if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
            return None
        if not all("turn" in turn for turn in turns):
            return None
        return [ToolCall(turn["turn"], "{}", id=f"t{n}") for n, turn in enumerate(turns)]


def read(text, source="calls.jsonl"):
    turns = read_turns(text, source, lambda: {"chat": Chat()})
    return [call for turn in turns for call in turn.calls]


def faults(text):
    with pytest.raises(UsageError) as caught:
        read(text)
    return list(caught.value.faults)


def test_each_line_is_a_call():
    calls = read('{"id": "a", "name": "add", "arguments": {"x": 1}}\n{"id": "b", "name": "sub"}\n')
    assert [(each.wire_id, each.name, each.arguments) for each in calls] == [
        ("a", "add", {"x": 1}),
        ("b", "sub", "{}"),
    ]


def test_a_single_line_is_a_call():
    (call,) = read('{"name": "add"}')
    assert call.name == "add"


def test_arguments_in_a_string_are_passed_on_as_they_are():
    (call,) = read('{"name": "add", "arguments": "{\\"x\\": 1,}"}')
    assert call.arguments == '{"x": 1,}'


def test_a_call_without_an_id_is_named_after_its_line():
    assert [call.wire_id for call in read('\n{"name": "a"}\n\n{"name": "b"}')] == [
        "line-2",
        "line-4",
    ]


def test_windows_line_ends_and_blank_lines_are_fine():
    assert len(read('{"name": "a"}\r\n\r\n{"name": "b"}\r\n')) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not JSON"),
        ("[1]", "an array, not a call"),
        ('"add"', "a string, not a call"),
        ("null", "null, not a call"),
        ('{"arguments": {}}', "the name of the tool is missing"),
        ('{"name": 7}', "the name is a number"),
        ('{"name": ""}', "the name is empty"),
        (
            '{"name": "a", "argument": {}}',
            "unknown key 'argument'; did you mean 'arguments'? There are 'id', 'name' and 'arg",
        ),
        ('{"name": "a", "xyz": 1}', "unknown key 'xyz'; there are 'id', 'name' and 'arguments'"),
        ('{"name": "a", "arguments": [1]}', "the arguments are an array"),
        ('{"name": "a", "arguments": null}', "the arguments are null"),
        ('{"name": "a", "id": 1}', "the id is a number"),
        ('{"name": "a", "name": "b"}', "the key 'name' is given twice"),
        ('{"name": "a", "arguments": {"x": 1, "x": 2}}', "the key 'x' is given twice"),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"name": "a", "arguments": {"x": ' + "[" * 100_000, "nested too deeply"),
        ('{"name": "a", "arguments": {"x": ' + "1" * 5_000 + "}}", "not JSON"),
    ],
)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_faulty_line_is_told_with_its_number(line, told, number):
    lines = ['{"id": "a", "name": "add"}', '{"id": "b", "name": "add"}']
    lines.insert(number - 1, line)
    (fault,) = faults("\n".join(lines))
    assert fault.startswith(f"calls.jsonl, line {number}: ")
    assert told in fault


@pytest.mark.parametrize(
    "text", ["def pay(): ...", "import os\n\n\ndef pay(): ...\n", "[x]\na = 1"]
)
def test_what_should_be_given_is_told_where_there_is_no_json(text):
    (fault,) = faults(text)
    assert fault.startswith("calls.jsonl, line 1: not JSON (expecting value at column ")
    wanted = (
        'Give calls as JSON, {"id", "name", "arguments"}, one a line, or a recorded conversation'
    )
    assert fault.endswith(f"). {wanted}.")


def test_python_is_told_to_be_loaded_as_a_plugin():
    with pytest.raises(UsageError) as caught:
        read("import os\n", source="my bad.py")
    (fault,) = caught.value.faults
    assert fault.endswith("; to load a plugin from this file, write --plugin 'my bad.py'.")


def test_a_call_that_breaks_off_is_told_with_the_line_it_ends_in():
    (fault,) = faults('\n{"name": "add"\n\n')
    assert fault.startswith("calls.jsonl, line 2: not JSON (expecting ',' delimiter at column 15).")


def test_all_faulty_lines_are_told_at_once():
    told = faults('{"name": "a"}\n{"names": "b"}\n{"name": "c"}\n{"name": 1}')
    assert [each.split(":")[0] for each in told] == ["calls.jsonl, line 2", "calls.jsonl, line 4"]


def test_many_faulty_lines_are_summed_up():
    told = faults("\n".join(['{"name": "a"}', *["{}"] * 30]))
    assert len(told) == 11
    assert told[-1] == "and 20 more faulty lines."


def test_one_more_faulty_line_is_told_as_one():
    assert faults("\n".join(['{"name": "a"}', *["{}"] * 11]))[-1] == "and 1 more faulty line."


def test_a_text_that_does_not_end_is_told_with_where_it_begins():
    (fault,) = faults('{"name": "a"}\n{"name": "b')
    assert fault == "calls.jsonl, line 2: not JSON (unterminated string starting at column 10)."


def test_an_id_given_twice_is_told_with_both_lines():
    (fault,) = faults('{"id": "a", "name": "x"}\n\n{"id": "a", "name": "y"}')
    assert "line 3" in fault
    assert "'a' is that of line 1" in fault


@pytest.mark.parametrize("text", ["", "\n", "  \n\t\n"])
def test_nothing_at_all_is_a_fault(text):
    assert "holds no calls" in faults(text)[0]


def test_a_conversation_is_read_by_the_dialect_that_knows_it():
    calls = read(json.dumps({"turns": [{"turn": "a"}, {"turn": "b"}]}, indent=2))
    assert [call.name for call in calls] == ["a", "b"]


def test_a_conversation_may_stand_on_one_line_or_one_turn_a_line():
    turns = [{"turn": "a"}, {"turn": "b"}]
    assert len(read(json.dumps({"turns": turns}))) == 2
    assert len(read("\n".join(map(json.dumps, turns)))) == 2


def test_a_conversation_without_calls_has_none():
    assert read('{"turns": []}') == []


def test_a_document_that_no_dialect_knows_is_told_with_those_there_are():
    (fault,) = faults('{"messages": []}')
    assert "not a conversation that a dialect knows (chat)" in fault


def test_a_single_call_with_a_misspelt_key_is_told_so():
    (fault,) = faults('{"named": "add"}')
    assert fault.startswith("calls.jsonl, line 1: unknown key 'named'; did you mean 'name'? ")
    assert fault.endswith(" There are 'id', 'name' and 'arguments'.")


def test_a_document_broken_in_its_midst_is_told_with_that_line():
    text = '{\n  "turns": [\n    {"turn": "a"},\n    {"turn" "b"}\n  ]\n}'
    assert faults(text)[0].startswith("calls.jsonl, line 4: not JSON")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("NaN", "NaN is not JSON"),
        ('{"x": 1, "x": 2}', "the key 'x' is given twice"),
        ("1" * 5_000, "too many digits"),
    ],
)
def test_a_document_with_what_is_refused_is_told_with_its_name(value, told):
    (fault,) = faults(f'{{\n  "turns": [\n    {{"turn": "a"}},\n    {value}\n  ]\n}}')
    assert fault.startswith("calls.jsonl: ")
    assert told in fault


def test_lines_that_are_refused_from_the_first_on_are_all_told():
    told = faults('{"name": NaN}\n{"name": "a", "name": "b"}\n{"names": "c"}')
    assert [each.split(": ")[0] for each in told] == [f"calls.jsonl, line {n}" for n in (1, 2, 3)]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.text(min_size=1),
            st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
        ),
        min_size=1,
    )
)
def test_what_is_written_is_read(wishes):
    lines = [
        json.dumps({"id": f"n{number}", "name": name, "arguments": arguments})
        for number, (name, arguments) in enumerate(wishes)
    ]
    assert [(call.name, call.arguments) for call in read("\n".join(lines))] == wishes


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(UsageError):
        assert isinstance(read(text), list)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_source(str(tmp_path / "none"))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"name": "a"}')
    assert read_source(str(path))[1] == '{"name": "a"}'


def test_what_is_not_utf_8_is_told_with_its_line(tmp_path):
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b'{"name": "a"}\n{"name": "\xff"}')
    with pytest.raises(UsageError, match="line 2: not UTF-8"):
        read_source(str(path))


def test_arguments_of_a_single_call_are_passed_on_as_they_are():
    assert read_arguments('{"a": 1}') == '{"a": 1}'


@pytest.mark.parametrize("text", ["", "{", "1", "[1]", "null", "{'a': 1}", '{"a": 1, "a": 2}'])
def test_arguments_that_are_no_json_object_are_refused(text):
    with pytest.raises(UsageError, match=r"the arguments (are|cannot be read)"):
        read_arguments(text)


@pytest.mark.parametrize(
    ("text", "quoted", "hinted"),
    [("{a: 1}", True, True), ("{a: 1}", False, False), ('{"a": 1, "a": 2}', True, False)],
)
def test_quotes_are_asked_for_only_where_a_shell_may_have_taken_them(text, quoted, hinted):
    with pytest.raises(UsageError) as caught:
        read_arguments(text, quoted=quoted)
    assert ("Quote them for the shell" in str(caught.value)) is hinted
