"""A foreign tool says of any callable with a schema what a tool says."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from pydantic import TypeAdapter

from toolstile_hookspecs import DefinitionError, ForeignTool, IdempotencyConfig, ToolResult
from toolstile_hookspecs.execution.foreign_tools import handler_of

EMPTY = {"type": "object"}


def test_it_is_told_of_in_one_line():
    made = ForeignTool(
        "send",
        "Send it.",
        {"type": "object", "properties": {"to": {"type": "string"}}},
        lambda arguments, context: arguments["to"],
        category="read",
        consequence="high",
        idempotency=IdempotencyConfig(strategy="params", param_keys=("to",)),
        tags=("mail",),
        server="post",
    )
    assert (made.name, made.wire_name, made.origin) == ("send", None, "post")
    assert (made.category, made.consequence, made.tags) == ("read", "high", ("mail",))
    assert not made.contained
    assert made.parse('{"to": "ada"}') == {"to": "ada"}
    assert made.handler({"to": "ada"}, context=None) == ToolResult.ok("ada")


@pytest.mark.parametrize(
    ("name", "own", "wire"),
    [
        ("send_mail", "send_mail", None),
        ("SendMail", "sendmail", "SendMail"),
        ("mail.send/now", "mail_send_now", "mail.send/now"),
        ("x" * 70, "x" * 64, "x" * 70),
    ],
)
def test_a_name_that_no_tool_can_have_stays_its_wire_name(name, own, wire):
    made = ForeignTool(name, "Send it.", EMPTY)
    assert (made.name, made.wire_name) == (own, wire)
    assert replace(made, category="write").wire_name == wire


def test_what_is_corrected_stays_what_it_is():
    made = ForeignTool("Send", f"Send it. {'More. ' * 50}", EMPTY, lambda _, __: 1, server="post")
    twin = replace(made, category="read", timeout=3)
    assert isinstance(twin, ForeignTool)
    assert (twin.category, twin.timeout, twin.contained) == ("read", 3, False)
    for name in ("name", "wire_name", "origin", "description", "long_description", "call"):
        assert getattr(twin, name) == getattr(made, name)


def test_of_a_long_description_the_beginning_is_the_short_one():
    made = ForeignTool("send", f"Send it. {'More. ' * 50}\n\nArgs: none.", EMPTY)
    assert made.description.startswith("Send it.")
    assert len(made.description) <= 200
    assert made.long_description.endswith("Args: none.")


def test_a_pattern_that_cannot_be_searched_in_bounded_time_is_left_to_the_callable():
    schema = TypeAdapter(Decimal).json_schema()
    odd = {"pattern": "(?!a)b", "default": {"pattern": "(?!a)b"}, "type": "string"}
    plain = {"type": "string", "pattern": "^a+$"}
    properties = {"amount": schema, "pattern": odd, "plain": plain}
    made = ForeignTool("pay", "Pay.", {"type": "object", "properties": properties})
    kept = made.params_schema["properties"]
    assert set(kept) == set(properties)
    assert kept["pattern"] == {"default": {"pattern": "(?!a)b"}, "type": "string"}
    assert kept["plain"] == plain
    assert made.parse({"amount": "12.50"}) == {"amount": "12.50"}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"schema": {"type": "string"}}, "arguments are an object"),
        ({"schema": {"type": "obj"}}, "Tool 'send'"),
        ({"description": ""}, "it has no description"),
        ({"category": "reed"}, "category is 'reed'"),
        ({"server": " "}, "origin is blank"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_made(fields, told):
    with pytest.raises(DefinitionError, match=told):
        ForeignTool(**{"name": "send", "description": "Send.", "schema": EMPTY, **fields})


@pytest.mark.parametrize("call", [3, "send", {}])
def test_what_runs_it_is_a_callable(call):
    with pytest.raises(TypeError, match=r"write call\(arguments, context\)"):
        handler_of(call)
    with pytest.raises(TypeError, match="needs a callable"):
        ForeignTool("send", "Send.", EMPTY, call)
