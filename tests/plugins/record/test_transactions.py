"""A record names the transaction of each call and has a line for its end; a replay repeats it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolstile import Host, Settings, ToolCall
from toolstile_hookspecs import PolicyDecision, ToolContext, hookimpl, tool
from toolstile_plugins.record import Recording, verify
from toolstile_plugins.record.reader import Reader
from toolstile_plugins.record.replayer import executed, replayed


@pytest.fixture
def made(desk: Any, path: Any) -> Any:
    """Record a transaction that is rolled back, one that is kept, and calls around them."""
    with desk.recording(path) as tools:
        desk.call(tools, "note", text="before")
        with tools.transaction("dropped") as work:
            desk.call(work, "note", text="x")
            desk.call(work, "notes")
            desk.call(work, "echo", text="not contained")
            work.rollback("No luck.")
        desk.call(tools, "note", text="between")
        with tools.transaction("trip") as work:
            desk.call(work, "note", text="a")
            with work.transaction("inner") as inner:
                desk.call(inner, "note", text="b")
            desk.call(work, "note", text="c")
        desk.call(tools, "note", text="after")
    return path


def said(path: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_call_names_its_transaction_and_the_end_has_a_line(made: Any) -> None:
    lines = said(made)
    dropped, inner, trip = [each for each in lines if each["kind"] == "transaction"]
    assert (dropped["title"], dropped["status"], dropped["reason"]) == (
        "dropped",
        "rolled_back",
        "No luck.",
    )
    assert (inner["title"], inner["parent"], trip["status"]) == ("inner", trip["id"], "committed")
    calls = [each for each in lines if each["kind"] == "call"]
    assert [each.get("transaction") for each in calls] == [
        None,
        *[dropped["id"]] * 3,
        None,
        trip["id"],
        inner["id"],
        trip["id"],
        None,
    ]
    assert dropped["calls"] == [each["id"] for each in calls[1:3]]
    assert lines.index(dropped) == lines.index(calls[3]) + 1


def test_readers_have_the_ends_beside_the_calls(made: Any) -> None:
    assert verify(made).faults == ()
    reader = Reader(made)
    assert len([*reader]) == 9
    assert [each.described for each in reader.transactions] == [
        "transaction 'dropped' of 2 calls rolled back: No luck.",
        "transaction 'inner' of 1 call committed",
        "transaction 'trip' of 3 calls committed",
    ]


@pytest.mark.parametrize("play", [replayed, executed])
def test_a_replay_repeats_its_transactions(made: Any, desk: Any, play: Any) -> None:
    recording = Recording.load(made)
    with Host(discover=False, plugins=[desk.Desk()]) as host:
        assert [each.differs for each in play(host, recording)] == [False] * 9


def test_an_older_record_has_none(desk: Any, path: Any) -> None:
    with desk.recording(path) as tools:
        tools.dispatch(ToolCall("add", {"a": 1}))
    assert "transaction" not in path.read_text(encoding="utf-8")
    recording = Recording.load(path)
    assert recording.transactions == ()
    assert recording.calls[0].transaction is None


@tool(contained=True, requires_confirmation=True)
def jot(text: str, *, context: ToolContext) -> str:
    """Note a text."""
    context.session[str].append(text)
    return f"{len(context.session[str].all())} {text}"


class Person:
    """Refuses one text on each card."""

    def __call__(self, request: Any) -> bool:
        return request.params.text != "no"

    def turn(self, card: Any) -> Any:
        return {row.call.id: self(row) for row in card.rows}


@pytest.mark.parametrize("play", [replayed, executed])
@pytest.mark.parametrize("diff", [False, True])
def test_a_turn_is_replayed_without_its_refused_row(
    desk: Any, path: Any, play: Any, diff: bool
) -> None:
    settings = Settings(approve_by="turn", approve_diff=diff)
    with desk.recording(path, settings=settings, approver=Person(), tools=[jot]) as tools:
        tools.dispatch_all([ToolCall("jot", {"text": text}) for text in ("a", "b", "no")])
        assert tools.dispatch(ToolCall("jot", {"text": "last"})).text == "3 last"
    with Host(discover=False, tools=[jot], approver=Person()) as host:
        differs = [each.differs for each in play(host, Recording.load(path))]
    # A person who is really asked again refuses the row before it runs.
    assert differs == [False, False, diff and play is executed, False]


class OnlyReader:
    """Denies notes of all agents but one."""

    name = "only reader"

    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        allowed = context.agent == "main/reader" or tool.name != "note"
        return PolicyDecision.allow() if allowed else PolicyDecision.deny(context.agent)

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        return None


@pytest.mark.parametrize("play", [replayed, executed])
def test_a_call_of_a_child_is_replayed_as_the_child(desk: Any, path: Any, play: Any) -> None:
    with desk.recording(path, policies=[OnlyReader()]) as tools:
        with tools.child("reader", session="share") as child:
            assert desk.call(child, "note", text="a").success
            with child.transaction("trip") as work:
                assert desk.call(work, "note", text="b").success
            with child.child("deeper") as deeper:
                assert not desk.call(deeper, "note", text="c").success
        with tools.child("reader", session="own") as child:
            assert desk.call(child, "note", text="d").success
    recording = Recording.load(path)
    agents = [each.agent for each in recording.calls]
    assert agents == ["main/reader", "main/reader", "main/reader/deeper", "main/reader"]
    with Host(discover=False, plugins=[desk.Desk()], policies=[OnlyReader()]) as host:
        heard: list[Any] = []
        host.register(Heard(heard))
        assert [each.differs for each in play(host, recording)] == [False] * 4
    assert [event.agent for event in heard] == agents


class Heard:
    def __init__(self, events: list[Any]) -> None:
        self._events = events

    @hookimpl
    def toolstile_telemetry(self, event: Any) -> None:
        self._events.append(event)
