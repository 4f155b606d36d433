"""Gemini's function declarations and parts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from toolstile_hookspecs import ToolResult
from toolstile_plugins.dialects.gemini import Gemini

CALL = {"name": "search", "args": {"query": "whale"}, "id": "g1"}
CONTENT = {"role": "model", "parts": [{"text": "Looking."}, {"functionCall": CALL}]}


def test_tools_are_the_declarations_of_one_entry(search, make_tool, with_example):
    (entry,) = Gemini().schemas([search, make_tool()])
    first, second = entry["functionDeclarations"]
    assert first == {
        "name": "search",
        "description": with_example,
        "parametersJsonSchema": {
            "type": "object",
            "title": "Search",
            "description": "The text to look for.",
            "properties": {
                "query": {"type": "string", "title": "Query", "description": "Words to find."},
                "limit": {"type": "integer", "title": "Limit", "default": 10},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
    }
    assert second == {"name": "act", "description": "Act."}


def test_no_tools_make_no_entry():
    assert Gemini().schemas([]) == []


@pytest.mark.parametrize(
    "reply",
    [
        CONTENT,
        CONTENT["parts"],
        {"candidates": [{"content": CONTENT}]},
        SimpleNamespace(parts=[SimpleNamespace(function_call=SimpleNamespace(**CALL))]),
    ],
)
def test_calls_are_read_from_responses_contents_and_parts(reply):
    (call,) = Gemini().calls(reply)
    assert (call.wire_id, call.name, call.arguments) == ("g1", "search", {"query": "whale"})


def test_a_result_is_output_and_a_failure_is_an_error(search, outcome):
    (call,) = Gemini().calls(CONTENT)
    outcomes = [
        outcome(ToolResult.ok("Found."), tool=search, call=call),
        outcome(ToolResult.error("Not found."), tool=search, call=call),
    ]
    assert Gemini().results(outcomes) == [
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "g1",
                        "name": "search",
                        "response": {"output": "Found."},
                    }
                },
                {
                    "functionResponse": {
                        "id": "g1",
                        "name": "search",
                        "response": {"error": "Not found."},
                    }
                },
            ],
        }
    ]
    assert Gemini().results([]) == []


def test_a_call_without_an_id_is_answered_without_one(search, outcome):
    (call,) = Gemini().calls([{"functionCall": {"name": "search"}}])
    assert call.wire_id
    assert call.arguments == "{}"
    (message,) = Gemini().results([outcome(ToolResult.ok("x"), tool=search, call=call)])
    assert "id" not in message["parts"][0]["functionResponse"]


@given(st.from_regex(r"[a-z0-9_-]{1,12}", fullmatch=True))
def test_every_tools_name_is_declared_as_a_valid_one_and_read_back(name):
    from toolstile_hookspecs import tool

    def act() -> str:
        """Act."""
        return ""

    (entry,) = Gemini().schemas([tool(name=name)(act)])
    declared = entry["functionDeclarations"][0]["name"]
    assert declared[0].isalpha() or declared[0] == "_"
    assert Gemini().calls([{"functionCall": {"name": declared}}])[0].name == name


def test_recorded_contents_are_read():
    document = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}, CONTENT]}
    assert [call.wire_id for call in Gemini().recorded(document) or []] == ["g1"]
    assert [call.wire_id for call in Gemini().recorded([CONTENT]) or []] == ["g1"]
