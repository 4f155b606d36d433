"""Traces surround a call; where they ask for it they hear of stages and go into processes."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest

from toolstile.pipeline.call import ActiveCall
from toolstile_hookspecs import (
    PolicyDecision,
    Stage,
    StageTrace,
    Status,
    ToolContext,
    hookimpl,
    tool,
)

traced: ContextVar[str] = ContextVar("traced", default="nothing")


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(requires_confirmation=True)
def risky() -> str:
    """Need a person."""
    return "done"


class Listening:
    """A plugin whose traces hear of stages, and set a context variable."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.heard: list[str] = []
        self.told: list[str] = []
        self.fault = fault

    @hookimpl
    def toolstile_trace(self, call: Any) -> Any:
        return _Trace(self, call.name)

    @hookimpl
    def toolstile_telemetry(self) -> None:
        self.told.append(traced.get())


class _Trace:
    def __init__(self, plugin: Listening, name: str) -> None:
        self.plugin = plugin
        self.name = name

    def __enter__(self) -> None:
        self.token = traced.set(self.name)

    def __exit__(self, *error: object) -> None:
        traced.reset(self.token)
        self.plugin.heard.append("left")

    def stage(self, stage: Stage) -> None:
        self.plugin.heard.append(stage.value)
        if self.plugin.fault is not None:
            raise self.plugin.fault


def test_they_hear_of_each_stage_in_order(yard: Any) -> None:
    plugin = Listening()
    yard.open(add, plugins=(plugin,))
    yard.call("add", a=1, b=2)

    assert isinstance(_Trace(plugin, "add"), StageTrace)
    assert plugin.heard == [
        *("lookup", "parse", "deadline", "reserve", "execute", "render", "validate"),
        *("prepare", "commit", "left"),
    ]


def test_they_hear_how_far_a_failed_call_got(yard: Any) -> None:
    plugin = Listening()
    yard.open(add, plugins=(plugin,))
    outcome = yard.call("add", a="one", b=2)

    assert (outcome.status, outcome.stage) == (Status.INVALID, Stage.PARSE)
    assert plugin.heard == ["lookup", "parse", "left"]


def test_they_hear_of_checks_that_are_repeated(yard: Any) -> None:
    plugin = Listening()
    yard.open(risky, plugins=(plugin,), approver=lambda request: True)

    assert yard.call("risky").success
    assert plugin.heard[3:6] == ["check", "approve", "check"]


def test_one_that_fails_is_logged_and_changes_nothing(
    yard: Any, caplog: pytest.LogCaptureFixture
) -> None:
    yard.open(add, plugins=(Listening(ValueError("deaf")),))

    assert yard.call("add", a=1, b=2).success
    assert "failed to trace a stage" in caplog.text
    assert "deaf" in caplog.text


def test_what_they_set_holds_in_handlers_nested_calls_and_telemetry(
    yard: Any, nesting: Any
) -> None:
    seen: list[str] = []

    @tool(timeout=30)
    def inner(*, context: ToolContext) -> None:
        """Look at the variable, on a thread of its own."""
        seen.append(traced.get())

    plugin = Listening()
    yard.open(inner, nesting("inner", seen, is_async=yard.driver == "async"), plugins=(plugin,))
    assert yard.call("outer").success

    assert seen[0] == "inner"
    assert plugin.told == ["inner", "outer"]
    assert traced.get() == "nothing"


def test_calls_nobody_listens_to_are_what_they_were(yard: Any, monkeypatch: Any) -> None:
    kinds: list[type[ActiveCall]] = []
    end = ActiveCall.end

    def ending(run: ActiveCall) -> None:
        kinds.append(type(run))
        end(run)

    monkeypatch.setattr(ActiveCall, "end", ending)
    yard.open(add)
    yard.call("add", a=1, b=2)
    assert kinds == [ActiveCall]


def test_a_policy_is_asked_within_them(yard: Any) -> None:
    asked: list[str] = []

    class Asked:
        @hookimpl
        def toolstile_check(self) -> PolicyDecision | None:
            asked.append(traced.get())
            return None

    yard.open(add, plugins=(Listening(), Asked()))
    yard.call("add", a=1, b=2)
    assert asked == ["add"]
