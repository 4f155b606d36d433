"""MCP's tool definitions, requests and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from types import SimpleNamespace

import pytest
from pydantic import BaseModel, computed_field

from toolstile_hookspecs import IdempotencyConfig, Status, ToolCall, ToolResult
from toolstile_hookspecs.codecs import Codec
from toolstile_plugins.dialects.mcp import Mcp

PARAMS = {"name": "search", "arguments": {"query": "whale"}, "_meta": {"traceparent": "00-a-b-01"}}
REQUEST = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": PARAMS}


def test_a_tool_is_defined_with_both_schemas(search, with_example):
    (shown,) = Mcp().schemas([search])
    assert shown["name"] == "search"
    assert shown["title"] == "Search"
    assert shown["description"] == with_example
    assert shown["inputSchema"]["required"] == ["query"]
    assert shown["outputSchema"]["type"] == "object"
    assert set(shown["outputSchema"]["properties"]) == {"titles"}


def test_the_title_is_the_name_in_words(make_tool):
    assert Mcp().schemas([make_tool(name="open_new-ticket")])[0]["title"] == "Open new ticket"


@pytest.mark.parametrize(
    ("category", "hints"),
    [
        ("read", {"readOnlyHint": True}),
        ("write", {"readOnlyHint": False}),
        ("delete", {"readOnlyHint": False, "destructiveHint": True}),
        ("side_effect", {"readOnlyHint": False, "openWorldHint": True}),
    ],
)
def test_hints_follow_from_the_category(make_tool, category, hints):
    assert Mcp().schemas([make_tool(category=category)])[0]["annotations"] == hints


@pytest.mark.parametrize(("strategy", "hint"), [("auto", True), ("none", False)])
def test_declared_idempotency_is_a_hint(make_tool, strategy, hint):
    tool = make_tool(category="write", idempotency=IdempotencyConfig(strategy=strategy))
    assert Mcp().schemas([tool])[0]["annotations"]["idempotentHint"] is hint


def test_a_tool_without_a_value_has_no_output_schema(make_tool, outcome):
    tool = make_tool()
    assert "outputSchema" not in Mcp().schemas([tool])[0]
    (result,) = Mcp().results([outcome(ToolResult.ok("Done."), tool=tool)])
    assert result == {"content": [{"type": "text", "text": "Done."}], "isError": False}


def test_a_tool_whose_values_are_never_shown_has_no_output_schema(make_tool):
    tool = make_tool(result=dict[str, int], exclude_value_from_context=True)
    assert "outputSchema" not in Mcp().schemas([tool])[0]


@dataclass(frozen=True)
class Job:
    name: str
    on_done: Callable[[], None] | None = None

    def render(self) -> str:
        return self.name


def test_a_tool_whose_result_has_no_json_schema_has_no_output_schema(make_tool, outcome):
    tool = make_tool(result=Job)
    assert "outputSchema" not in Mcp().schemas([tool])[0]
    (result,) = Mcp().results([outcome(ToolResult.ok(Job("a")), tool=tool)])
    assert "structuredContent" not in result


def test_a_value_that_is_no_object_is_wrapped_in_one(make_tool, outcome):
    tool = make_tool(result=list[int])
    assert Mcp().schemas([tool])[0]["outputSchema"] == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"type": "integer"}}},
    }
    (result,) = Mcp().results([outcome(ToolResult.ok([1]), tool=tool, data=b"[1]")])
    assert result["structuredContent"] == {"result": [1]}


@dataclass
class Wrapped:
    result: int


def test_an_object_with_a_property_called_result_is_not_wrapped(make_tool, outcome):
    tool = make_tool(result=Wrapped)
    done = ToolResult("Done.", Wrapped(1))
    (result,) = Mcp().results([_silent(outcome, done, tool, b'{"result":1}')])
    assert result["structuredContent"] == {"result": 1}


def _silent(outcome, done, tool, data):
    shown = ToolResult.ok(None, done.message)
    return outcome(shown, tool=tool, data=data)


class Square(BaseModel):
    side: int

    @computed_field
    @property
    def area(self) -> int:
        return self.side**2


@pytest.mark.parametrize("kind", [Square, list[Square], Square | None])
def test_every_success_fits_the_output_schema_with_or_without_its_value(
    make_tool, outcome, fits, kind
):
    tool = make_tool(result=kind)
    schema = Mcp().schemas([tool])[0]["outputSchema"]
    value = [Square(side=2)] if kind == list[Square] else Square(side=2)
    data = Codec(kind, owner="a test").encode(value)
    kept = outcome(ToolResult.ok(value, exclude_value_from_context=True), tool=tool)
    for item in (_silent(outcome, ToolResult.ok(), tool, data), kept):
        (result,) = Mcp().results([item])
        assert fits(schema, result["structuredContent"])


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        (int, b'"x"', "result: \"x\" is not of type 'integer'"),
        (Point, b'{"x":"1"}', "x: \"1\" is not of type 'integer'"),
        (date, b"12", "result: 12 is not of type 'string'"),
        (Square, b'{"side":"a","area":4}', "side: \"a\" is not of type 'integer'"),
    ],
)
def test_a_value_that_is_not_what_the_tool_declares_is_an_error(
    make_tool, outcome, kind, data, reason
):
    tool = make_tool(result=kind)
    (result,) = Mcp().results([_silent(outcome, ToolResult.ok(), tool, data)])
    assert result["isError"]
    assert "structuredContent" not in result
    (content,) = result["content"]
    assert (
        f"kept, but it returned something else than it declares, which is left out ({reason})"
        in (content["text"])
    )


def test_every_failure_is_an_error_without_structure(search, outcome):
    for status in (Status.FAILED, Status.DENIED):
        item = outcome(ToolResult.error("Cannot."), status=status, tool=search)
        assert Mcp().results([item]) == [
            {"content": [{"type": "text", "text": "Cannot."}], "isError": True}
        ]


@pytest.mark.parametrize("reply", [REQUEST, PARAMS, [REQUEST]])
def test_requests_and_their_params_are_read(reply):
    (call,) = Mcp().calls(reply)
    assert (call.name, call.arguments) == ("search", {"query": "whale"})
    assert call.meta == {"traceparent": "00-a-b-01"}


def test_a_request_gives_the_call_its_id():
    assert Mcp().calls(REQUEST)[0].provider_id == "7"


def test_clients_objects_are_read():
    class Meta:
        def model_dump(self, **options):
            return {"progressToken": "p"}

    params = SimpleNamespace(name="search", arguments=None, meta=Meta())
    (call,) = Mcp().calls(SimpleNamespace(method="tools/call", params=params))
    assert isinstance(call, ToolCall)
    assert call.arguments == "{}"
    assert call.meta == {"progressToken": "p"}


def test_recorded_requests_are_read_and_other_messages_passed_over():
    document = [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        REQUEST,
        {"jsonrpc": "2.0", "id": 7, "result": {"content": []}},
    ]
    assert [call.wire_id for call in Mcp().recorded(document) or []] == ["7"]
    assert [call.wire_id for call in Mcp().recorded(REQUEST) or []] == ["7"]
    assert Mcp().recorded(PARAMS) is None


def test_a_version_and_tags_stand_in_the_meta_of_a_definition(make_tool):
    versioned = make_tool(version="1.2.0", tags=("mail", "out"))
    plain, shown = Mcp().schemas([make_tool(), versioned])
    assert "_meta" not in plain
    assert shown["_meta"] == {"toolstile/version": "1.2.0", "toolstile/tags": ["mail", "out"]}
