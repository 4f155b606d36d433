"""OpenAI's messages, both of Chat Completions and of the Responses API."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from toolstile_hookspecs import Dialect, MarkdownSection, Prompt, Status, ToolResult
from toolstile_plugins.dialects.openai import OpenAI, OpenAIResponses

CHAT_MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}},
        {"id": "c3", "type": "function", "function": {"name": "search", "arguments": ""}},
    ],
}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "c9", "name": "search", "arguments": "{}"}


def attributes(value):
    """Return plain data as a client's objects would show it."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: attributes(each) for key, each in value.items()})
    return [attributes(each) for each in value] if isinstance(value, list) else value


def seen(calls):
    return [(call.wire_id, call.name, call.arguments) for call in calls]


def test_a_tool_is_a_strict_function_where_its_schema_allows(search, with_example):
    (shown,) = OpenAI().schemas([search])
    assert shown["type"] == "function"
    function = shown["function"]
    assert function["name"] == "search"
    assert function["description"] == with_example
    assert function["strict"] is True
    assert function["parameters"]["required"] == ["query", "limit"]
    assert function["parameters"]["properties"]["query"]["description"] == "Words to find."


def test_another_tool_is_shown_with_its_own_schema(make_tool):
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    tool = make_tool(dict[str, str])
    function = OpenAI().schemas([tool])[0]["function"]
    assert function["strict"] is False
    assert function["parameters"] == schema


def test_strict_mode_can_be_switched_off(search):
    function = OpenAI(strict=False).schemas([search])[0]["function"]
    assert function["strict"] is False
    assert function["parameters"]["required"] == ["query"]


def test_a_tool_without_params_takes_an_empty_object(make_tool):
    function = OpenAI().schemas([make_tool()])[0]["function"]
    assert function["strict"] is True
    assert function["parameters"]["properties"] == {}


def test_the_responses_api_has_functions_without_a_wrapper(search):
    (shown,) = OpenAIResponses().schemas([search])
    assert shown["type"] == "function"
    assert shown["name"] == "search"
    assert shown["strict"] is True


def test_a_long_description_stands_in_for_the_short_one(make_tool):
    tool = make_tool(long_description="Long. " * 400)
    assert OpenAI().schemas([tool])[0]["function"]["description"] == "Long. " * 400


def test_the_tools_of_a_prompt_are_those_of_its_sections(search):
    prompt = Prompt.of("test", "main", (MarkdownSection(key="a", title="A", tools=[search]),))
    assert OpenAI().schemas(prompt) == OpenAI().schemas([search])


@pytest.mark.parametrize("shape", [lambda value: value, attributes])
@pytest.mark.parametrize("reply", [CHAT_MESSAGE, {"choices": [{"message": CHAT_MESSAGE}]}])
def test_calls_of_a_chat_completion_are_read(shape, reply):
    expected = [("c1", "search", '{"a": 1}'), ("c3", "search", "{}")]
    assert seen(OpenAI().calls(shape(reply))) == expected


@pytest.mark.parametrize("shape", [lambda value: value, attributes])
@pytest.mark.parametrize("reply", [{"output": [ITEM]}, [ITEM], ITEM])
def test_calls_of_a_response_are_read(shape, reply):
    assert seen(OpenAIResponses().calls(shape(reply))) == [("c9", "search", "{}")]


def test_a_reply_without_calls_has_none():
    assert OpenAI().calls({"role": "assistant", "content": "Hello."}) == []


def test_results_are_tool_messages_in_order(search, outcome):
    outcomes = [
        outcome(ToolResult.ok("Found."), tool=search),
        outcome(ToolResult.error("No such book. Search again."), tool=search),
        outcome(ToolResult.error("Denied."), status=Status.DENIED, tool=search),
    ]
    assert OpenAI().results(outcomes) == [
        {"role": "tool", "tool_call_id": "call_1", "content": "Found."},
        {"role": "tool", "tool_call_id": "call_1", "content": "No such book. Search again."},
        {"role": "tool", "tool_call_id": "call_1", "content": "Denied."},
    ]


def test_results_of_the_responses_api_are_output_items(search, outcome):
    assert OpenAIResponses().results([outcome(ToolResult.ok("Found."), tool=search)]) == [
        {"type": "function_call_output", "call_id": "call_1", "output": "Found."}
    ]


def test_an_excluded_value_is_in_no_message(search, outcome):
    result = ToolResult.ok("secret", "Done.", exclude_value_from_context=True)
    assert OpenAI().results([outcome(result, tool=search)])[0]["content"] == "Done."


@pytest.mark.parametrize(
    "document",
    [
        {"messages": [{"role": "user", "content": "Hi."}, CHAT_MESSAGE]},
        [{"role": "user", "content": "Hi."}, CHAT_MESSAGE],
        {"choices": [{"message": CHAT_MESSAGE}]},
    ],
)
def test_recorded_chats_are_read(document):
    assert seen(OpenAI().recorded(document) or []) == [
        ("c1", "search", '{"a": 1}'),
        ("c3", "search", "{}"),
    ]


@pytest.mark.parametrize("shape", [lambda value: value, attributes])
@pytest.mark.parametrize("of", [lambda calls: calls, lambda calls: calls[0]])
def test_calls_without_their_message_are_read(of, shape):
    calls = [{"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]
    assert seen(OpenAI().calls(shape(of(calls)))) == [("c1", "a", "{}")]
    assert seen(OpenAI().recorded(of(calls)) or []) == [("c1", "a", "{}")]


@pytest.mark.parametrize("shape", [lambda value: value, attributes])
@pytest.mark.parametrize("function", [{"name": "a"}, {"name": "a", "arguments": None}])
def test_calls_without_arguments_are_read_also_without_their_message(function, shape):
    message = {"tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    for reply in (message, message["tool_calls"], message["tool_calls"][0]):
        assert seen(OpenAI().calls(shape(reply))) == [("c1", "a", "{}")]
        assert seen(OpenAI().recorded(reply) or []) == [("c1", "a", "{}")]


@pytest.mark.parametrize("shape", [lambda value: value, attributes])
def test_the_call_of_a_legacy_message_is_read_with_an_id_made_up(shape):
    message = {"role": "assistant", "function_call": {"name": "a", "arguments": '{"b": 1}'}}
    for reply in (message, {"choices": [{"message": message}]}):
        for calls in (OpenAI().calls(shape(reply)), OpenAI().recorded(shape(reply)) or []):
            (call,) = calls
            assert (call.name, call.arguments) == ("a", '{"b": 1}')
            assert call.wire_id


def test_a_call_that_a_message_holds_in_both_ways_is_read_once():
    message = {**CHAT_MESSAGE, "function_call": {"name": "search", "arguments": '{"a": 1}'}}
    assert seen(OpenAI().calls(message)) == seen(OpenAI().calls(CHAT_MESSAGE))


def test_a_part_of_geminis_is_no_legacy_message():
    assert OpenAI().recorded([{"function_call": {"name": "a", "args": {}}}]) is None


def test_tools_are_no_calls(search):
    assert OpenAI().calls(OpenAI().schemas([search])) == []
    assert OpenAI().calls([{"type": "function", "function": {"name": "a"}}]) == []


def test_recorded_responses_are_read_inputs_first():
    earlier = {**ITEM, "call_id": "c8"}
    output = {"type": "function_call_output", "call_id": "c8", "output": "x"}
    document = {"input": [{"role": "user", "content": "Hi."}, earlier, output], "output": [ITEM]}
    assert [call.wire_id for call in OpenAI().recorded(document) or []] == ["c8", "c9"]


def test_both_are_dialects():
    dialects: list[Dialect] = [OpenAI(), OpenAIResponses()]
    assert [each.name for each in dialects] == ["openai", "openai-responses"]
