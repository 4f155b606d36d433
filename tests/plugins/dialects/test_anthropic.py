"""Anthropic's tools and content blocks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from toolstile_hookspecs import DeadlineExceededError, Status, ToolCall, ToolResult
from toolstile_plugins.dialects.anthropic import Anthropic

USE = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "whale"}}
MESSAGE = {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, USE]}


def test_a_tool_has_its_schema_and_the_inputs_of_its_examples(search):
    (shown,) = Anthropic().schemas([search])
    assert shown["name"] == "search"
    assert shown["description"].startswith("Search the library.\n\nExamples:\n- ")
    assert shown["input_schema"]["type"] == "object"
    assert shown["input_schema"]["required"] == ["query"]
    assert shown["input_examples"] == [{"query": "whale", "limit": 3}]


def test_a_tool_without_examples_shows_none(make_tool):
    assert "input_examples" not in Anthropic().schemas([make_tool()])[0]


@pytest.mark.parametrize(
    "reply",
    [MESSAGE, MESSAGE["content"], SimpleNamespace(content=[SimpleNamespace(**USE)])],
)
def test_calls_are_read_from_messages_and_blocks(reply):
    (call,) = Anthropic().calls(reply)
    assert (call.wire_id, call.name, call.arguments) == ("toolu_1", "search", {"query": "whale"})


@pytest.mark.parametrize("given", ["", None, {}])
def test_no_input_means_no_arguments(given):
    (call,) = Anthropic().calls([{**USE, "input": given}])
    assert call.arguments in ("{}", {})


def test_input_that_is_no_object_is_left_for_parsing_to_refuse():
    (call,) = Anthropic().calls([{**USE, "input": [1]}])
    assert call.arguments == "[1]"


def test_results_are_the_blocks_of_one_user_message(search, outcome):
    outcomes = [
        outcome(ToolResult.ok("Found."), tool=search),
        outcome(ToolResult.ok("Again."), tool=search, call=ToolCall("search", id="call_2")),
    ]
    assert Anthropic().results(outcomes) == [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "call_1",
                    "is_error": False,
                    "content": "Found.",
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "call_2",
                    "is_error": False,
                    "content": "Again.",
                },
            ],
        }
    ]


def test_no_outcomes_make_no_message():
    assert Anthropic().results([]) == []


def test_a_tools_own_failure_is_no_error_but_every_other_one_is(search, outcome):
    def is_error(item) -> bool:
        return Anthropic().results([item])[0]["content"][0]["is_error"]

    failed = ToolResult.error("Not found.")
    assert is_error(outcome(failed, tool=search)) is False
    for status in set(Status) - {Status.SUCCEEDED, Status.FAILED}:
        assert is_error(outcome(failed, status=status, tool=search)) is True
    assert is_error(DeadlineExceededError("late")) is True


def test_an_empty_text_is_left_out(search, outcome):
    (message,) = Anthropic().results([outcome(ToolResult.ok(), tool=search)])
    assert "content" not in message["content"][0]


def test_a_recorded_conversation_is_read_and_only_what_the_assistant_said():
    asked = {"role": "user", "content": [USE]}
    document = {"messages": [{"role": "user", "content": "Hi."}, MESSAGE, asked, MESSAGE]}
    assert [call.name for call in Anthropic().recorded(document) or []] == ["search", "search"]
    assert Anthropic().recorded({"messages": [asked]}) == []


def test_recorded_blocks_without_their_message_are_read():
    for document in (USE, [USE]):
        assert [call.name for call in Anthropic().recorded(document) or []] == ["search"]
