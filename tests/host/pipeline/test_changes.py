"""Observers that take it are told what a call did to its session; for others nobody finds out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile_hookspecs import (
    SnapshotError,
    ToolContext,
    ToolInvoked,
    ToolResult,
    append_all,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Note:
    text: str


class Opaque:
    pass


@tool
def keep(text: str, *, context: ToolContext) -> Note:
    """Keep a note, or fail."""
    context.session[str].append(text)
    if text == "broken":
        raise RuntimeError("broken")
    if text == "opaque":
        context.session[Opaque].append(Opaque())
    return Note(text)


@tool
def outer(text: str, *, context: ToolContext) -> ToolResult[None]:
    """Keep a note by a call of its own."""
    context.call("keep", {"text": text})
    return ToolResult.ok(message="done")


class Recorder:
    def __init__(self) -> None:
        self.told: dict[str, str | SnapshotError] = {}

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked, changes: str | SnapshotError) -> None:
        self.told[event.tool_name] = changes


class Onlooker:
    def __init__(self) -> None:
        self.seen: list[ToolInvoked] = []

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.seen.append(event)


@pytest.fixture
def recorder(yard: Any) -> Recorder:
    recorder = Recorder()
    yard.open(keep, outer, plugins=[recorder, Onlooker()])
    yard.session[Note].register(Note, append_all)
    return recorder


def doings(changes: Any) -> list[tuple[str, Any]]:
    return [(each["do"], each["items"]) for each in json.loads(changes)]


def test_a_recorder_is_told_what_handler_and_reducers_did(yard: Any, recorder: Recorder) -> None:
    yard.call("keep", text="a")
    assert sorted(doings(recorder.told["keep"])) == [
        ("append", ["a"]),
        ("dispatch", [{"text": "a"}]),
    ]


def test_what_a_nested_call_did_is_told_of_both(yard: Any, recorder: Recorder) -> None:
    yard.call("outer", text="a")
    assert sorted(doings(recorder.told["outer"])) == sorted(doings(recorder.told["keep"]))


def test_what_was_rolled_back_is_not_told(yard: Any, recorder: Recorder) -> None:
    yard.call("keep", text="broken")
    assert recorder.told["keep"] == "[]"


def test_why_it_cannot_be_told_is_said(yard: Any, recorder: Recorder) -> None:
    assert yard.call("keep", text="opaque").success
    assert isinstance(recorder.told["keep"], SnapshotError)
    assert "Opaque cannot be written as JSON" in str(recorder.told["keep"])


def test_nobody_finds_out_where_nobody_takes_it(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Onlooker()
    yard.open(keep, plugins=[observer])
    monkeypatch.setattr("toolstile.state.branch.Branch.changes", None)
    assert yard.call("keep", text="a").success
    assert len(observer.seen) == 1
