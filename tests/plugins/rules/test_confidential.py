"""Values of a named source do not go to a named place, however they are written there."""

from __future__ import annotations

from typing import Any

import pytest

from toolstile_hookspecs import (
    Contents,
    DefinitionError,
    TextContent,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.rules import ConfidentialPolicy

from .mailbox import TOOLS, mailbox

NOTE = "The board meets on the third of May to sell the northern works to a rival of ours."


@tool
def read_payroll(name: str) -> dict[str, Any]:
    """Read the payroll."""
    return {
        "name": name,
        "iban": "DE89370400440532013000",
        "pay": 4250.5,
        "by_mail": {"bob@work.example": "monthly"},
        "note": NOTE,
        "grade": "ok",
        "history": [{"pin": "Blue Heron"}],
    }


@tool
def read_text(name: str) -> str:
    """Read a text, in which there is JSON."""
    return '{"iban": "DE89370400440532013000", "deep": "[{\\"pin\\": \\"Blue Heron\\"}]"}'


def _contents(params: Any, *, context: ToolContext) -> ToolResult[Contents]:
    parts = (TextContent('{"iban": "DE89370400440532013000"}'), TextContent("Blue Heron"))
    return ToolResult.ok(Contents(parts, {"pin": "Red Fox"}))


read_server: Tool[Any, Contents] = Tool(
    name="read_server", description="Read.", params_schema={"type": "object"}, handler=_contents
)
RULE = {
    "kind": "confidential",
    "otherwise": "deny",
    "sources": {"read_payroll": ["iban", "pay", "by_mail", "note", "pin", "grade"]},
    "places": {"send_email": ["body", "subject"]},
}
ALL = [*TOOLS, read_payroll, read_text, read_server]


def sends(mail: Any, body: str, **more: Any) -> bool:
    return bool(mail.sends("ann@work.example", body=body, **more))


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize(
    "body",
    [
        *(
            "DE89370400440532013000",
            "to de89 3704 0044 0532 0130 00, please",
            "DE89-37040044-0532013000",
        ),
        *(
            "The pay is 4250.5.",
            "Write to BOB@work.example",
            "bob%40work.example",
            "bob&#64;work.example",
        ),
        *("blue  heron", "Blue\u200b Heron", "\uff22lue Heron", "(Blue Heron)", "it is monthly"),
        *(
            NOTE,
            f"They say: {NOTE.upper()}",
            "to sell the northern works to a rival",
            "x" * 9 + NOTE,
        ),
    ],
)
def test_a_value_does_not_go_to_a_place(driver, body):
    with mailbox(driver, RULE, tools=ALL) as mail:
        assert sends(mail, body)
        assert mail.passes("read_payroll", name="bob")
        told = mail.call("send_email", recipients=["a@b.example"], body=body)
        assert told.status == "denied"
        assert "a confidential value stands in body" in told.text
        assert body not in told.text
        assert not sends(mail, "Hello.", subject=body)


@pytest.mark.parametrize(
    "body",
    [
        *(
            "Hello bob.",
            "ok",
            "DE8937040044",
            "The pay is 4250.",
            "a blue one, and a heron",
            "Heron Blue",
        ),
        *("The board meets on the third of June", "works of ours", "to sell the northern works"),
    ],
)
def test_other_texts_do(body):
    with mailbox("sync", RULE, tools=ALL) as mail:
        assert mail.passes("read_payroll", name="bob")
        assert sends(mail, body)


def test_only_its_fields_and_places_are_ruled():
    with mailbox("sync", RULE, tools=ALL) as mail:
        assert mail.passes("read_payroll", name="unnamed")
        assert sends(mail, "unnamed")
        assert mail.passes("reserve_hotel", hotel="DE89370400440532013000")
        assert mail.sends("bob@work.example")
    every = {**RULE, "places": {"send_*": ["*"], "reserve_hotel": ["hotel"]}}
    with mailbox("sync", every, tools=ALL) as mail:
        assert mail.passes("read_payroll", name="bob")
        assert not mail.sends("bob@work.example")
        assert not mail.sends("x@work.example", "DE89370400440532013000")
        assert not mail.passes("reserve_hotel", hotel="Blue Heron")


@pytest.mark.parametrize(
    ("source", "fields", "held"),
    [
        ("read_text", ["pin"], ["Blue Heron"]),
        ("read_text", ["*"], ["Blue Heron", "DE89370400440532013000"]),
        ("read_server", ["iban"], ["DE89370400440532013000"]),
        ("read_server", ["*"], ["DE89370400440532013000", "Blue Heron", "Red Fox"]),
        ("read_payroll", ["*"], ["Blue Heron", "4250.5", "bob@work.example", "monthly"]),
    ],
)
def test_fields_are_found_in_texts_of_servers(source, fields, held):
    rule = {**RULE, "sources": {source: fields}}
    arguments = {} if source == "read_server" else {"name": "ann"}
    with mailbox("sync", rule, tools=ALL) as mail:
        assert mail.passes(source, **arguments)
        assert not any(sends(mail, each) for each in held)
        assert sends(mail, "The type of a text is text.")


def test_a_person_may_let_it_go_and_another_session_knows_nothing_of_it():
    asks = {**RULE, "otherwise": "ask"}
    with mailbox("sync", asks, tools=ALL, answer=True) as mail:
        assert mail.passes("read_payroll", name="bob")
        assert sends(mail, "Blue Heron")
        assert len(mail.asked) == 1
        with mail.host.executor() as other:
            call = {"recipients": ["a@b.example"], "body": "Blue Heron"}
            assert other.dispatch(ToolCall("send_email", call)).success


def test_a_call_within_another_is_a_source_and_a_place():
    with mailbox("sync", RULE, tools=ALL) as mail:
        read = {"name": "read_payroll", "arguments": {"name": "bob"}}
        send = {"name": "send_email", "arguments": {"recipients": ["a@b"], "body": "Blue Heron"}}
        texts = mail.call("in_turn", calls=[read, send]).result.value
        assert "a confidential value stands in body" in texts[1]
        assert not sends(mail, "Blue Heron")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"sources": {}}, "sources: it names none"),
        ({"places": {}}, "places: it names none"),
        ({"sources": {"a": 3}}, "sources"),
        ({"otherwise": "allow"}, "otherwise"),
    ],
)
def test_a_wrong_field_is_refused(fields, told):
    given: dict[str, Any] = {"sources": {"a": ("b",)}, "places": {"c": ("d",)}, **fields}
    with pytest.raises(DefinitionError, match=told):
        ConfidentialPolicy(**given)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"places": {"send_email": ["bdy"]}}, "names 'bdy' in places, which 'send_email' does not"),
        ({"places": {"send_mail": ["body"]}}, "send_mail"),
        ({"sources": {"read_pay": ["iban"]}}, "read_pay"),
    ],
)
def test_a_name_that_no_tool_has_keeps_the_host_from_opening(fields, told):
    with (
        pytest.raises(Exception, match=told),
        mailbox("sync", {**RULE, **fields}, tools=ALL),
    ):
        pass
