"""A cancellation handle ends a call wherever it is: running, waiting, or asking a person."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from toolstile_hookspecs import (
    Binding,
    CallClosed,
    Cancellation,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

Touch = Callable[..., None]

pytestmark = pytest.mark.slow
PATIENCE = 30.0
SOON = 10.0
"""Seconds that a busy machine may take for what is due at once."""


class Ledger:
    """An exclusive resource."""

    def begin(self) -> None:
        return None

    def commit(self, savepoint: None) -> None:
        return None

    def rollback(self, savepoint: None) -> None:
        return None


class Stopper:
    """Cancels, from a thread of its own, once the call is where it should be."""

    def __init__(self, delay: float = 0.0) -> None:
        self.handle = Cancellation()
        self.there = threading.Event()
        self.stopped_at = 0.0
        self._thread = threading.Thread(target=self._stop, args=(delay,))
        self._thread.start()

    def _stop(self, delay: float) -> None:
        self.there.wait(PATIENCE)
        time.sleep(delay)
        self.stopped_at = time.monotonic()
        self.handle.cancel()

    def dispatch(self, yard: Any, name: str) -> Any:
        """Dispatch a call that is cancelled meanwhile, and must then end soon."""
        outcome = yard.dispatch(ToolCall(name, cancellation=self.handle))
        assert time.monotonic() - self.stopped_at < SOON
        self._thread.join(PATIENCE)
        assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")
        return outcome


def test_a_handler_that_looks_can_end_by_itself(yard: Any, touch: Touch) -> None:
    stop = Stopper()
    seen: list[bool] = []

    @tool(timeout=None)
    def polls(*, context: ToolContext) -> ToolResult[None]:
        """Work until it is cancelled."""
        touch(context)
        stop.there.set()
        ends = time.monotonic() + PATIENCE
        while not context.cancelled and time.monotonic() < ends:
            time.sleep(0.005)
        seen.append(context.cancelled)
        return ToolResult.ok()

    yard.open(polls)
    outcome = stop.dispatch(yard, "polls")

    assert outcome.stage is Stage.EXECUTE
    deadline = time.monotonic() + PATIENCE
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen == [True]
    yard.assert_untouched()
    assert yard.events == [outcome.event]
    assert outcome.event.rolled_back


def test_a_sync_handler_that_does_not_look_is_abandoned(yard: Any, touch: Touch) -> None:
    stop, release = Stopper(), threading.Event()

    @tool(timeout=50)
    def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait."""
        touch(context)
        stop.there.set()
        release.wait(PATIENCE)
        return ToolResult.ok()

    yard.open(sleeps)
    outcome = stop.dispatch(yard, "sleeps")
    release.set()

    assert outcome.stage is Stage.EXECUTE
    yard.assert_untouched()
    assert yard.events == [outcome.event]


@pytest.mark.parametrize("timeout", [None, 50])
def test_an_async_handler_is_cancelled(yard: Any, touch: Touch, timeout: float | None) -> None:
    stop, ended = Stopper(), threading.Event()

    @tool(timeout=timeout)
    async def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait."""
        touch(context)
        stop.there.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.set()
        return ToolResult.ok()

    yard.open(sleeps)
    outcome = stop.dispatch(yard, "sleeps")

    assert outcome.stage is Stage.EXECUTE
    assert ended.wait(SOON)
    yard.assert_untouched()


@pytest.mark.parametrize("inner_is_async", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_nested_call_is_cancelled_with_its_root(
    yard: Any, touch: Touch, nesting: Any, is_async: bool, inner_is_async: bool
) -> None:
    stop, release = Stopper(), threading.Event()

    @tool(name="inner")
    def inner(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait."""
        touch(context, "inner")
        stop.there.set()
        release.wait(PATIENCE)
        return ToolResult.ok()

    @tool(name="inner")
    async def ainner(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait."""
        touch(context, "inner")
        stop.there.set()
        await asyncio.sleep(PATIENCE)
        return ToolResult.ok()

    yard.open(ainner if inner_is_async else inner, nesting("inner", [], is_async=is_async))
    stop.dispatch(yard, "outer")
    release.set()

    assert {event.status for event in yard.events} == {Status.CANCELLED}
    yard.assert_untouched()


def test_what_a_cancelled_call_calls_does_not_begin(yard: Any, touch: Touch) -> None:
    told: SimpleQueue[str] = SimpleQueue()

    @tool
    def inner(*, context: ToolContext) -> ToolResult[None]:
        """Change something."""
        touch(context, "inner")
        return ToolResult.ok()

    @tool
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call another tool after the end."""
        cancellation.cancel()
        try:
            told.put(context.call("inner").text)
        except CallClosed as error:
            # The caller was back first, so that the call was closed by then.
            told.put(str(error))
        return ToolResult.ok()

    cancellation = Cancellation()
    yard.open(inner, outer)
    yard.dispatch(ToolCall("outer", cancellation=cancellation))

    assert told.get(timeout=10) in {
        "Request was cancelled",
        "outer was cancelled, so it can change nothing more.",
    }
    assert {event.session_id for event in yard.events} == {"session"}
    yard.assert_untouched()


def test_a_call_that_is_cancelled_once_its_handler_has_ended_is_not_kept(
    yard: Any, touch: Touch
) -> None:
    cancellation = Cancellation()

    class Cancelling:
        @hookimpl
        def toolstile_render(self) -> None:
            cancellation.cancel()

    @tool
    def write(*, context: ToolContext) -> ToolResult[None]:
        """Change something."""
        touch(context)
        return ToolResult.ok()

    yard.open(write, plugins=(Cancelling(),))
    outcome = yard.dispatch(ToolCall("write", cancellation=cancellation))

    assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")
    yard.assert_untouched()


def test_a_call_that_waits_for_its_turn_is_cancelled(yard: Any, touch: Touch) -> None:
    stop, release, holding = Stopper(0.2), threading.Event(), threading.Event()
    ran: list[str] = []

    @tool(concurrency="serial", timeout=None)
    def alone(first: bool = False, *, context: ToolContext) -> ToolResult[None]:
        """Run one at a time."""
        if first:
            holding.set()
            release.wait(PATIENCE)
        else:
            ran.append("second")
        return ToolResult.ok()

    yard.open(alone)
    first = threading.Thread(target=lambda: yard.call("alone", first=True))
    first.start()
    assert holding.wait(PATIENCE)
    stop.there.set()
    stop.dispatch(yard, "alone")
    release.set()
    first.join(PATIENCE)

    assert ran == []
    assert yard.call("alone").success


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_waits_for_an_exclusive_resource_is_cancelled(
    yard: Any, is_async: bool
) -> None:
    stop, release, holding = Stopper(0.2), threading.Event(), threading.Event()

    @tool(timeout=None)
    def holds(*, context: ToolContext) -> ToolResult[None]:
        """Hold the ledger."""
        context.resources.get(Ledger)
        holding.set()
        release.wait(PATIENCE)
        return ToolResult.ok()

    @tool(name="waits")
    def waits(*, context: ToolContext) -> ToolResult[None]:
        """Ask for the ledger."""
        context.resources.get(Ledger)
        return ToolResult.ok()

    @tool(name="waits")
    async def awaits(*, context: ToolContext) -> ToolResult[None]:
        """Ask for the ledger."""
        await context.resources.aget(Ledger)
        return ToolResult.ok()

    resources = (Binding.instance(Ledger, Ledger()),)
    yard.open(holds, awaits if is_async else waits, resources=resources)
    holder = threading.Thread(target=lambda: yard.call("holds"))
    holder.start()
    assert holding.wait(PATIENCE)
    stop.there.set()
    stop.dispatch(yard, "waits")
    release.set()
    holder.join(PATIENCE)

    assert yard.call("waits").success


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_waits_for_an_approver_is_cancelled(yard: Any, is_async: bool) -> None:
    stop, release = Stopper(), threading.Event()
    withdrawn: list[Cancellation] = []

    def ask(request: Any) -> bool:
        withdrawn.append(request.withdrawn)
        stop.there.set()
        release.wait(PATIENCE)
        return True

    async def aask(request: Any) -> bool:
        withdrawn.append(request.withdrawn)
        stop.there.set()
        await asyncio.sleep(PATIENCE)
        return True

    ran: list[str] = []

    @tool(requires_confirmation=True)
    def risky() -> ToolResult[None]:
        """Run once a person agrees."""
        ran.append("ran")
        return ToolResult.ok()

    yard.open(risky, approver=aask if is_async else ask)
    outcome = stop.dispatch(yard, "risky")
    release.set()

    assert outcome.stage is Stage.APPROVE
    assert withdrawn[0].aborted
    assert ran == []
    assert not outcome.event.rolled_back


def test_a_question_is_withdrawn_when_the_task_that_waits_is_cancelled(make_yard: Any) -> None:
    yard = make_yard("async")
    asked: asyncio.Queue[Cancellation] = asyncio.Queue()

    async def ask(request: Any) -> bool:
        asked.put_nowait(request.withdrawn)
        await asyncio.sleep(PATIENCE)
        return True

    @tool(requires_confirmation=True)
    def risky() -> None:
        """Run once a person agrees."""

    async def give_up() -> None:
        task = asyncio.create_task(yard.tools.adispatch(ToolCall("risky", {})))
        withdrawn = await asked.get()
        assert not withdrawn.aborted
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert withdrawn.aborted

    yard.open(risky, approver=ask)
    asyncio.run(give_up())


def test_one_call_of_several_is_cancelled_and_the_others_go_on(yard: Any, touch: Touch) -> None:
    stop, release = Stopper(), threading.Event()

    @tool
    def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait."""
        touch(context, "slow")
        stop.there.set()
        release.wait(PATIENCE)
        return ToolResult.ok()

    @tool
    def works(*, context: ToolContext) -> ToolResult[None]:
        """Change something."""
        touch(context, "quick")
        return ToolResult.ok()

    yard.open(sleeps, works)
    calls = [ToolCall("works"), ToolCall("sleeps", cancellation=stop.handle), ToolCall("works")]
    outcomes = yard.dispatch_all(calls)
    release.set()

    assert [each.status for each in outcomes] == [
        Status.SUCCEEDED,
        Status.CANCELLED,
        Status.SUCCEEDED,
    ]
    assert yard.marks == ["quick", "quick"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_cancelled_at_any_moment_is_kept_whole_or_not_at_all(
    yard: Any, mark: Any, is_async: bool
) -> None:
    @tool(name="works")
    def works(text: str, *, context: ToolContext) -> ToolResult[None]:
        """Change something, in two steps."""
        context.session[mark].append(mark(text))
        time.sleep(0.0005)
        context.resources.get(type(yard.box)).put(text)
        return ToolResult.ok()

    @tool(name="works")
    async def aworks(text: str, *, context: ToolContext) -> ToolResult[None]:
        """Change something, in two steps."""
        context.session[mark].append(mark(text))
        await asyncio.sleep(0.0005)
        context.resources.get(type(yard.box)).put(text)
        return ToolResult.ok()

    yard.open(aworks if is_async else works)
    chance = random.Random(7)
    kept: list[str] = []
    for number in range(150):
        stop = Cancellation()
        timer = threading.Timer(chance.uniform(0, 0.004), stop.cancel)
        timer.start()
        outcome = yard.dispatch(ToolCall("works", {"text": str(number)}, cancellation=stop))
        timer.join(PATIENCE)
        assert outcome.status in {Status.SUCCEEDED, Status.CANCELLED}
        if outcome.success:
            kept.append(str(number))

    assert yard.marks == yard.box.items == kept
    assert len(yard.events) == 150
