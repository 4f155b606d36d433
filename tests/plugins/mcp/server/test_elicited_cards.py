"""The questions of several calls within one request are one form, with a choice for each row."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from mcp import Client
from mcp_types import ElicitResult

from toolstile import Host, Settings
from toolstile_hookspecs import ToolCall, ToolContext, TransactionFailed, tool
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of

from .conftest import LEGACY

pytestmark = pytest.mark.anyio
HOSTS: list[Host] = []
NOTED: list[str] = []


@tool(requires_confirmation=True)
async def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


@tool(contained=True)
async def note(text: str, *, context: ToolContext) -> str:
    """Note a text."""
    context.session[str].append(text)
    return f"noted {text}"


@tool
async def send_all(texts: list[str]) -> list[str]:
    """Send texts, as an agent within the tool does in one turn."""
    with HOSTS[-1].executor() as tools:
        calls = [ToolCall("send", {"text": text}) for text in texts]
        return [outcome.text for outcome in await tools.adispatch_all(calls)]


@tool
async def note_all(texts: list[str]) -> str:
    """Note texts in one transaction."""
    with HOSTS[-1].executor() as tools:
        try:
            async with tools.transaction("notes", approve=True) as work:
                for text in texts:
                    await work.adispatch(ToolCall("note", {"text": text}))
        except TransactionFailed as error:
            return str(error)
        return ", ".join(tools.session[str].all())


class Person:
    """Fills in forms by the numbers of their rows, the last row first."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, context, params):
        self.asked.append(params)
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return ElicitResult(action=answer, content={} if answer == "accept" else None)
        rows = {each["title"][0]: id_ for id_, each in choices(params).items()}
        content = {rows[number]: choice for number, choice in reversed(answer.items())}
        return ElicitResult(action="accept", content=content)


def choices(params):
    return params.requested_schema["properties"]


@asynccontextmanager
async def served(person, mode=LEGACY):
    settings = Settings(approver="mcp", approve_by="turn", plugins={"mcp": {}})
    with Host(settings=settings, tools=[send, note, send_all, note_all]) as host:
        HOSTS.append(host)
        session = ServedSession(executors_of(host)(None, None))
        server = HostServer(host, host.settings("mcp").serve, OneSession(session))
        async with Client(server.protocol, mode=mode, elicitation_callback=person) as client:
            yield client
        await server.caller.finish()
        session.end()


async def result_of(client, name, *texts):
    result = await client.call_tool(name, {"texts": list(texts)})
    return result.structured_content["result"]


async def test_rows_are_answered_in_another_order_and_two_are_equal():
    person = Person({"1": "approve", "2": "approve", "3": "deny"})
    async with served(person) as client:
        told = await result_of(client, "send_all", "a", "b", "a")
    assert told[:2] == ["sent a", "sent b"]
    assert "did not approve" in told[2]
    (asked,) = person.asked
    lines = asked.message.splitlines()
    assert lines[0] == "3 calls wait for your answer."
    heads = [line for line in lines if line[0].isdecimal()][1:]
    assert [head.partition("?")[0] for head in heads] == [f"{n}. Run send" for n in (1, 2, 3)]
    assert [each["enum"] for each in choices(asked).values()] == [["approve", "deny"]] * 3
    assert len(asked.requested_schema["required"]) == 3


@pytest.mark.parametrize(
    ("reaction", "told"),
    [("decline", "did not approve"), ("cancel", "closed the question without an answer")],
)
async def test_a_form_that_is_not_accepted_denies_all(reaction, told):
    async with served(Person(reaction)) as client:
        texts = await result_of(client, "send_all", "a", "b")
    assert all(told in text for text in texts)


async def test_more_rows_than_a_form_has_are_asked_about_one_by_one():
    person = Person(*["accept"] * 20, "decline")
    async with served(person) as client:
        told = await result_of(client, "send_all", *map(str, range(21)))
    assert [text.startswith("sent") for text in told] == [True] * 20 + [False]
    assert len(person.asked) == 21
    assert all(choices(asked) == {} for asked in person.asked)


async def test_a_transaction_is_shown_with_one_diff():
    person = Person({"1": "approve", "2": "approve", "3": "deny"}, {"1": "approve", "2": "approve"})
    async with served(person) as client:
        assert await result_of(client, "note_all", "a", "b", "a") == "a, b"
    first, second = person.asked
    assert first.message.startswith("The calls of notes have run. Keep their changes?")
    assert first.message.count("It would change:") == 1
    assert "added 2" in second.message


async def test_a_transaction_waits_for_a_client_that_answers_later():
    async with served(Person(), mode="auto") as client:
        told = await result_of(client, "note_all", "a")
    assert "waits for a person's approval" in told
