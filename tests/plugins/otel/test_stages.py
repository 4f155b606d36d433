"""Stages have spans of their own where that is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk import trace as sdk

from toolstile_hookspecs import tool
from toolstile_plugins.otel import spans


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def test_each_stage_is_a_span_within_the_calls(traced: Any) -> None:
    traced.open(add, settings={"stages": True})
    traced.call("add", a=1, b=2)

    call = traced.named("execute_tool add")
    stages = [span for span in traced.spans if span is not call]
    assert [span.name for span in stages] == [
        f"toolstile.stage {name}"
        for name in (
            *("lookup", "parse", "deadline", "reserve", "execute", "render"),
            *("validate", "prepare", "commit"),
        )
    ]
    for span in stages:
        assert span.parent == call.context
        assert call.start_time <= span.start_time <= span.end_time <= call.end_time
        assert dict(span.attributes) == {
            "toolstile.stage": span.name.split()[1],
            "gen_ai.conversation.id": "session-1",
        }


def test_they_stay_within_it_when_the_clock_is_set(
    traced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(10**18, 0, -(10**9)))
    for module in (spans, sdk):
        monkeypatch.setattr(module, "time_ns", lambda: next(times))
    traced.open(add, settings={"stages": True})
    traced.call("add", a=1, b=2)

    moments = [(span.start_time, span.end_time) for span in traced.spans]
    call = traced.named("execute_tool add")
    assert all(call.start_time <= first <= last <= call.end_time for first, last in moments)


def test_the_last_one_is_where_a_call_failed(traced: Any) -> None:
    traced.open(add, settings={"stages": True})
    traced.call("add", a="one")
    assert [span.name for span in traced.spans] == [
        "toolstile.stage lookup",
        "toolstile.stage parse",
        "execute_tool add",
    ]


def test_without_asking_there_is_one_span(traced: Any) -> None:
    traced.open(add)
    traced.call("add", a=1, b=2)
    assert len(traced.spans) == 1


def test_what_a_handler_traces_belongs_to_the_call(traced: Any) -> None:
    @tool
    def work() -> None:
        """Trace some work."""
        with traced.provider.get_tracer("tests").start_as_current_span("work"):
            pass

    traced.open(work, settings={"stages": True})
    traced.call("work")
    assert traced.named("work").parent == traced.named("execute_tool work").context
