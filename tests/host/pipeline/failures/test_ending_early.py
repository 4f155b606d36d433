"""Calls that are ended from outside while they wait within another one: nothing of them is kept."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from toolstile_hookspecs import (
    Binding,
    Cancellation,
    Deadline,
    PromptEvaluationError,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    tool,
)

pytestmark = pytest.mark.slow
PATIENCE = 30.0
SOON = 10.0
"""Seconds that a busy machine may take for what is due at once."""
BEGUN = 2.0
"""Seconds after which both calls have begun, also on a busy machine."""


class Till:
    """An exclusive resource: what was rung up."""

    def __init__(self) -> None:
        self.rung: list[str] = []

    def begin(self) -> int:
        return len(self.rung)

    def commit(self, savepoint: int) -> None:
        return None

    def rollback(self, savepoint: int) -> None:
        del self.rung[savepoint:]


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.01)


class Waiting:
    """A call that changes everything and waits, within one that changes everything around it."""

    def __init__(self, yard: Any, touch: Callable[..., None], *, is_async: bool) -> None:
        self.yard = yard
        self.touch = touch
        self.is_async = is_async
        self.till = Till()
        self.there = threading.Event()
        self.release = threading.Event()
        self.told: list[Any] = []

    def open(
        self, *, inner: float | None = None, outer: float | None = None, **options: Any
    ) -> None:
        make = self._async_tools if self.is_async else self._tools
        bound = (Binding.instance(Till, self.till),)
        self.yard.open(*make(inner, outer), resources=bound, **options)

    def _tools(self, inner: float | None, outer: float | None) -> list[Tool[Any, Any]]:
        @tool(name="waits", timeout=inner)
        def waits(*, context: ToolContext) -> None:
            """Change everything, then wait."""
            self._change(context, "inner", context.resources.get(Till))
            self.there.set()
            self.release.wait(PATIENCE)

        @tool(name="around", timeout=outer)
        def around(*, context: ToolContext) -> None:
            """Change everything before and after the call that waits."""
            till = context.resources.get(Till)
            self._change(context, "before", till)
            self.told.append(context.call("waits"))
            self.release.set()
            until(lambda: till.rung == ["before"])
            self._change(context, "after", till)

        return [waits, around]

    def _async_tools(self, inner: float | None, outer: float | None) -> list[Tool[Any, Any]]:
        @tool(name="waits", timeout=inner)
        async def waits(*, context: ToolContext) -> None:
            """Change everything, then wait."""
            self._change(context, "inner", await context.resources.aget(Till))
            self.there.set()
            await asyncio.sleep(PATIENCE)

        @tool(name="around", timeout=outer)
        async def around(*, context: ToolContext) -> None:
            """Change everything before and after the call that waits."""
            till = await context.resources.aget(Till)
            self._change(context, "before", till)
            self.told.append(await context.acall("waits"))
            while till.rung != ["before"]:  # noqa: ASYNC110 - a thread may have to end
                await asyncio.sleep(0.01)
            self._change(context, "after", till)

        return [waits, around]

    def _change(self, context: ToolContext, text: str, till: Till) -> None:
        self.touch(context, text)
        till.rung.append(text)

    def assert_nothing_kept(self, *may_be: Status) -> None:
        """Whoever was abandoned ends now; nothing of both calls is left, and the till is free.

        Parameters:
            may_be: How the inner call may have ended beside being cancelled.
        """
        self.release.set()
        until(lambda: len(self.yard.events) == 2)
        until(lambda: self.till.rung == [])
        self.yard.assert_untouched()
        events = {each.tool_name: each for each in self.yard.events}
        assert events["waits"].parent_id == events["around"].call_id
        assert events["waits"].rolled_back
        assert events["around"].rolled_back
        # Handlers that await are interrupted there; others learn that they were given up.
        interrupted = {Status.RAISED} if self.is_async else set()
        assert events["waits"].status in {Status.CANCELLED, *interrupted, *may_be}


@pytest.fixture(params=["sync handlers", "async handlers"])
def waiting(request: pytest.FixtureRequest, yard: Any, touch: Callable[..., None]) -> Waiting:
    return Waiting(yard, touch, is_async=request.param.startswith("async"))


def test_a_call_that_times_out_within_another_is_rolled_back_alone(waiting: Waiting) -> None:
    waiting.open(inner=0.2)

    outcome = waiting.yard.call("around")

    assert outcome.success, outcome.text
    (told,) = waiting.told
    assert told.status is Status.TIMED_OUT
    assert "may still be running" in told.text
    inner, outer = waiting.yard.events
    assert (inner.status, inner.rolled_back) == (Status.TIMED_OUT, True)
    assert inner.parent_id == outer.call_id
    assert waiting.yard.marks == waiting.yard.box.items == ["before", "after"]
    assert waiting.till.rung == ["before", "after"]


def test_a_call_that_times_out_takes_those_within_it_back_too(waiting: Waiting) -> None:
    waiting.open(outer=BEGUN)
    started = time.monotonic()

    outcome = waiting.yard.call("around")

    assert time.monotonic() - started < SOON
    assert outcome.status is Status.TIMED_OUT
    waiting.assert_nothing_kept()


def test_the_deadline_takes_all_calls_back(waiting: Waiting) -> None:
    waiting.open(deadline=Deadline.after(BEGUN))
    started = time.monotonic()

    with pytest.raises(PromptEvaluationError):
        waiting.yard.call("around")

    assert time.monotonic() - started < SOON
    # Both calls wait for the same instant: either may be the one that notices it.
    waiting.assert_nothing_kept(Status.DEADLINE)


def test_a_cancellation_takes_all_calls_back(waiting: Waiting) -> None:
    stop = Cancellation()

    def cancel() -> None:
        waiting.there.wait(PATIENCE)
        stop.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    waiting.open()

    outcome = waiting.yard.dispatch(ToolCall("around", cancellation=stop))

    canceller.join(PATIENCE)
    assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")
    waiting.assert_nothing_kept()
