"""A handler that takes too long is given up at once, and can change nothing afterwards."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolstile_hookspecs import (
    Binding,
    CallClosed,
    Deadline,
    DeadlineExceededError,
    Outcome,
    PromptEvaluationError,
    ResourceBusyError,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)

Touch = Callable[..., None]

pytestmark = pytest.mark.slow
PATIENCE = 30.0
SOON = 10.0
"""Seconds that a busy machine may take for what is due at once."""
ATTEMPTS = 8
"""The number of short steps that a busy machine may delay."""


class Ledger:
    """An exclusive resource."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def begin(self) -> int:
        return len(self.entries)

    def commit(self, savepoint: int) -> None:
        return None

    def rollback(self, savepoint: int) -> None:
        del self.entries[savepoint:]


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.01)


def comes_soon(condition: Callable[[], object]) -> bool:
    ends = time.monotonic() + 2.0
    while not condition() and time.monotonic() < ends:
        time.sleep(0.01)
    return bool(condition())


def sleeper(release: threading.Event, **options: Any) -> Any:
    @tool(**{"timeout": 0.2, **options})
    def sleeps() -> ToolResult[None]:
        """Wait until the test lets it go."""
        release.wait(PATIENCE)
        return ToolResult.ok()

    return sleeps


def test_a_sync_handler_that_sleeps_is_given_up_at_its_timeout(yard: Any, touch: Touch) -> None:
    @tool(timeout=0.2)
    def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then sleep for five seconds."""
        touch(context)
        time.sleep(5)
        return ToolResult.ok()

    yard.open(sleeps)
    # Whatever else keeps the machine busy may delay a call; a host that waits delays all.
    for _ in range(ATTEMPTS):
        started = time.monotonic()
        outcome = yard.call("sleeps")
        took = time.monotonic() - started
        if took < 0.5:
            break

    assert 0.2 <= took < 0.5
    assert (outcome.status, outcome.stage) == (Status.TIMED_OUT, Stage.EXECUTE)
    assert "timed out after 0.2 seconds" in outcome.text
    assert "may still be running" in outcome.text
    yard.assert_untouched()
    assert yard.events[-1] == outcome.event
    assert outcome.event.rolled_back
    assert yard.observer.rollbacks[-1] == ("sleeps", outcome.text)


def test_what_an_abandoned_handler_does_later_is_refused_and_changes_nothing(
    yard: Any, touch: Touch, mark: Any
) -> None:
    timed_out, ended = threading.Event(), threading.Event()
    refused: dict[str, object] = {}
    heard: list[object] = []

    @tool
    def other() -> ToolResult[None]:
        """Be called."""
        heard.append("called")
        return ToolResult.ok()

    @tool(timeout=1.0)
    def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Go on after it was given up."""
        touch(context)
        box = context.resources.get(type(yard.box))
        timed_out.wait(PATIENCE)
        attempts: dict[str, Callable[[], object]] = {
            "append": lambda: context.session[mark].append(mark("late")),
            "seed": lambda: context.session[mark].seed(mark("late")),
            "clear": lambda: context.session[mark].clear(None),
            "read": lambda: list(context.session[mark].all()),
            "dispatch": lambda: context.session.dispatch(mark("late")),
            "snapshot": context.session.snapshot,
            "resource": lambda: context.resources.get(type(yard.box)),
            "call": lambda: context.call("other"),
            "progress": lambda: context.progress(1),
        }
        for name, attempt in attempts.items():
            try:
                refused[name] = attempt()
            except Exception as error:
                refused[name] = type(error)
        box.put("late")
        ended.set()
        return ToolResult.ok(message="done after all")

    yard.open(sleeps, other, on_progress=lambda *report: heard.append(report))
    outcome = yard.call("sleeps")
    timed_out.set()
    assert ended.wait(PATIENCE)

    assert refused == dict.fromkeys(refused, CallClosed)
    assert heard == []
    yard.assert_untouched()
    assert yard.events == [outcome.event]


def test_an_async_handler_is_cancelled_at_its_timeout(yard: Any, touch: Touch) -> None:
    cancelled = threading.Event()

    @tool(timeout=1.0)
    async def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait for ever."""
        touch(context)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ToolResult.ok()

    yard.open(sleeps)
    started = time.monotonic()
    outcome = yard.call("sleeps")

    assert time.monotonic() - started < SOON
    assert outcome.status is Status.TIMED_OUT
    assert cancelled.wait(PATIENCE)
    yard.assert_untouched()
    assert len(yard.events) == 1


@pytest.mark.parametrize("kind", ["ignores", "cleanup"])
def test_an_async_handler_that_does_not_end_is_abandoned_at_once(
    yard: Any, touch: Touch, kind: str
) -> None:
    release, ended = threading.Event(), threading.Event()
    late: list[type[BaseException]] = []

    async def linger() -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    @tool(timeout=1.0)
    async def stays(*, context: ToolContext) -> ToolResult[None]:
        """Stay longer than it may."""
        touch(context)
        try:
            await (linger() if kind == "ignores" else asyncio.Event().wait())
        finally:
            await linger()
            try:
                touch(context, "late")
            except Exception as error:
                late.append(type(error))
            ended.set()
        return ToolResult.ok()

    yard.open(stays)

    async def dispatch() -> Any:
        try:
            return await yard.tools.adispatch(ToolCall("stays"))
        finally:
            release.set()

    started = time.monotonic()
    if yard.driver == "sync":
        outcome = yard.call("stays")
        release.set()
    else:
        outcome = asyncio.run(dispatch())

    assert time.monotonic() - started < SOON
    assert outcome.status is Status.TIMED_OUT
    assert ended.wait(PATIENCE)
    assert late == [CallClosed]
    yard.assert_untouched()
    assert len(yard.events) == 1


def test_the_loop_goes_on_while_sync_handlers_run(make_yard: Any) -> None:
    yard = make_yard("async")

    @tool
    def works() -> ToolResult[None]:
        """Take a while."""
        time.sleep(0.3)
        return ToolResult.ok()

    yard.open(works)
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    async def scenario() -> list[Any]:
        ticking = asyncio.create_task(tick())
        calls = [yard.tools.adispatch(ToolCall("works")) for _ in range(4)]
        outcomes = await asyncio.gather(*calls)
        ticking.cancel()
        return outcomes

    # Whatever else keeps the machine busy may delay a tick; a loop that stands still delays all.
    for _ in range(ATTEMPTS):
        gaps.clear()
        outcomes = asyncio.run(scenario())
        assert all(outcome.success for outcome in outcomes)
        if max(gaps) < 0.05:
            break
    assert len(gaps) > 20
    assert max(gaps) < 0.05


@pytest.mark.parametrize("is_async", [False, True])
def test_the_deadline_passing_during_a_handler_ends_the_evaluation(
    yard: Any, touch: Touch, is_async: bool
) -> None:
    release = threading.Event()

    @tool(name="sleeps", timeout=None)
    def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait."""
        touch(context)
        release.wait(PATIENCE)
        return ToolResult.ok()

    @tool(name="sleeps", timeout=None)
    async def asleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change something, then wait."""
        touch(context)
        await asyncio.sleep(PATIENCE)
        return ToolResult.ok()

    yard.open(asleeps if is_async else sleeps, deadline=Deadline.after(1.5))
    started = time.monotonic()
    with pytest.raises(PromptEvaluationError) as raised:
        yard.call("sleeps")
    release.set()

    assert time.monotonic() - started < SOON
    assert isinstance(raised.value.__cause__, DeadlineExceededError)
    yard.assert_untouched()
    (event,) = yard.events
    assert (event.status, event.stage, event.rolled_back) == (
        Status.DEADLINE,
        Stage.EXECUTE,
        True,
    )


def test_an_exclusive_resource_of_an_abandoned_call_stays_locked_until_its_thread_ends(
    yard: Any,
) -> None:
    release = threading.Event()
    ledger = Ledger()

    @tool(timeout=1.0)
    def sleeps(*, context: ToolContext) -> ToolResult[None]:
        """Change the ledger, then wait."""
        context.resources.get(Ledger).entries.append("abandoned")
        release.wait(PATIENCE)
        return ToolResult.ok()

    @tool
    def writes(*, context: ToolContext) -> ToolResult[None]:
        """Change the ledger."""
        context.resources.get(Ledger).entries.append("written")
        return ToolResult.ok()

    yard.open(sleeps, writes, resources=(Binding.instance(Ledger, ledger),))
    assert yard.call("sleeps").status is Status.TIMED_OUT
    started = time.monotonic()
    refused = yard.call("writes")

    assert time.monotonic() - started < SOON
    assert refused.status is Status.ERROR
    assert isinstance(refused.event.error, ResourceBusyError)
    assert "abandoned call of sleeps" in refused.text
    assert ledger.entries == ["abandoned"]

    release.set()
    until(lambda: ledger.entries == [])
    until(lambda: yard.call("writes").success)
    assert ledger.entries == ["written"]


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("concurrency", ["parallel", "serial"])
def test_a_call_after_the_timeout_of_an_async_handler_waits_until_that_has_ended(
    make_yard: Any, driver: str, concurrency: Any
) -> None:
    ledger = Ledger()

    @tool(timeout=0.5, concurrency=concurrency)
    async def writes(text: str, *, context: ToolContext) -> None:
        """Change the ledger, and stay where that is asked for."""
        (await context.resources.aget(Ledger)).entries.append(text)
        if text == "stays":
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                await asyncio.sleep(0.1)

    calls = [ToolCall("writes", {"text": text}) for text in ("stays", "after")]
    yard = make_yard(driver)
    yard.open(writes, resources=(Binding.instance(Ledger, ledger),))

    async def one_after_another() -> list[Outcome]:
        return [await yard.tools.adispatch(call) for call in calls]

    if driver == "async":
        stays, after = asyncio.run(one_after_another())
    else:
        stays, after = map(yard.dispatch, calls)
    assert stays.status is Status.TIMED_OUT
    assert after.success, after.text
    assert ledger.entries == ["after"]


class DispatchTable:
    """A branchable resource whose branches take their time to be rolled back."""

    def __init__(self) -> None:
        self.rolled_back = 0

    def branch(self, context: ToolContext, parent: Any) -> TableBranch:
        return TableBranch(self)


class TableBranch:
    summary = None

    def __init__(self, table: DispatchTable) -> None:
        self.resource = self
        self._table = table

    def prepare(self) -> None:
        return None

    def commit(self) -> None:
        return None

    async def rollback(self) -> None:
        await asyncio.sleep(0)
        self._table.rolled_back += 1


def test_a_branch_of_a_handler_that_ends_as_it_is_given_up_can_await_its_rollback(
    yard: Any,
) -> None:
    table = DispatchTable()

    @tool(timeout=0.1)
    async def sleeps(*, context: ToolContext) -> None:
        """Use the table, then take too long."""
        context.resources.get(DispatchTable)
        await asyncio.sleep(PATIENCE)

    yard.open(sleeps, resources=(Binding.instance(DispatchTable, table),))

    assert yard.call("sleeps").status is Status.TIMED_OUT
    assert table.rolled_back == 1


class StallingLedger(Ledger):
    """One that takes its time to begin."""

    def __init__(self, goes_on: threading.Event) -> None:
        super().__init__()
        self.goes_on = goes_on

    def begin(self) -> int:
        self.goes_on.wait(SOON)
        return super().begin()


class StallingTable(DispatchTable):
    """One that takes its time to make a branch."""

    def __init__(self, goes_on: threading.Event) -> None:
        super().__init__()
        self.goes_on = goes_on
        self.put_back = threading.Event()

    def branch(self, context: ToolContext, parent: Any) -> Any:
        self.goes_on.wait(SOON)
        table = self

        class Branch(TableBranch):
            def rollback(self) -> None:
                table.put_back.set()

        return Branch(table)


@pytest.mark.parametrize("uses_another", [False, True])
@pytest.mark.parametrize("kind", [StallingLedger, StallingTable])
def test_a_resource_that_takes_its_time_holds_no_timed_out_call_up(
    yard: Any, kind: Any, uses_another: bool
) -> None:
    goes_on = threading.Event()
    stalling = kind(goes_on)

    @tool(timeout=0.2)
    def waits(*, context: ToolContext) -> None:
        """Ask for what is long in coming."""
        if uses_another:
            context.resources.get(type(yard.box)).put("written")
        context.resources.get(kind)

    # The yard's own resource is bound already.
    yard.open(waits, resources=(Binding.instance(kind, stalling),))
    started = time.monotonic()
    outcome = yard.call("waits")
    took = time.monotonic() - started
    goes_on.set()

    assert outcome.status is Status.TIMED_OUT
    assert took < SOON / 2
    assert yard.box.items == []
    if kind is StallingLedger:
        # Given back by the handler's end.
        until(lambda: yard.call("waits").success)
    else:
        assert stalling.put_back.wait(PATIENCE)


@pytest.mark.parametrize("kind", [StallingLedger, StallingTable])
@pytest.mark.parametrize("is_async", [False, True])
def test_nor_does_it_hold_up_the_call_around_it(
    yard: Any, nesting: Any, kind: Any, is_async: bool
) -> None:
    goes_on = threading.Event()
    stalling = kind(goes_on)

    @tool(timeout=0.2)
    def waits(*, context: ToolContext) -> None:
        """Ask for what is long in coming."""
        context.resources.get(kind)

    told: list[Any] = []
    calls = nesting("waits", told, is_async=is_async)
    yard.open(waits, calls, resources=(Binding.instance(kind, stalling),))
    started = time.monotonic()
    outcome = yard.call("outer")
    took = time.monotonic() - started
    goes_on.set()

    assert outcome.success
    assert took < SOON / 2
    assert [each.status for each in told] == [Status.TIMED_OUT]
    assert yard.box.items == ["outer"]
    if kind is StallingTable:
        assert stalling.put_back.wait(PATIENCE)


def test_waiting_for_an_exclusive_resource_does_not_count_against_the_timeout(yard: Any) -> None:
    holding = threading.Event()

    @tool
    def holds(*, context: ToolContext) -> ToolResult[None]:
        """Hold the ledger for longer than the other may take."""
        context.resources.get(Ledger)
        holding.set()
        time.sleep(3.0)
        return ToolResult.ok()

    @tool(timeout=1.5)
    def waits(*, context: ToolContext) -> ToolResult[None]:
        """Ask for the ledger while it is held."""
        context.resources.get(Ledger).entries.append("waited")
        return ToolResult.ok()

    ledger = Ledger()
    yard.open(holds, waits, resources=(Binding.instance(Ledger, ledger),))
    holder = threading.Thread(target=yard.call, args=("holds",))
    holder.start()
    assert holding.wait(PATIENCE)
    outcome = yard.call("waits")
    holder.join(PATIENCE)

    assert outcome.success, outcome.text
    assert ledger.entries == ["waited"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_nested_call_times_out_by_itself(yard: Any, nesting: Any, is_async: bool) -> None:
    release = threading.Event()
    told: list[Any] = []
    yard.open(sleeper(release), nesting("sleeps", told, is_async=is_async))
    started = time.monotonic()
    outcome = yard.call("outer")
    release.set()

    assert time.monotonic() - started < SOON
    assert outcome.success
    assert told[0].status is Status.TIMED_OUT
    assert yard.marks == yard.box.items == ["outer"]
    assert [(each.tool_name, each.status) for each in yard.events] == [
        ("sleeps", Status.TIMED_OUT),
        ("outer", Status.SUCCEEDED),
    ]


def test_a_nested_call_runs_on_its_callers_thread_unless_it_ends_before_it(yard: Any) -> None:
    threads: dict[str, int] = {}

    def noting(name: str, timeout: float | None) -> Any:
        @tool(name=name, timeout=timeout)
        def notes() -> ToolResult[None]:
            """Note the thread."""
            threads[name] = threading.get_ident()
            return ToolResult.ok()

        return notes

    @tool(timeout=5)
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call both."""
        threads["outer"] = threading.get_ident()
        context.call("longer")
        context.call("shorter")
        context.call("endless")
        return ToolResult.ok()

    yard.open(noting("longer", 50), noting("shorter", 2), noting("endless", None), outer)
    assert yard.call("outer").success

    assert threads["longer"] == threads["endless"] == threads["outer"]
    assert threads["shorter"] != threads["outer"]


@pytest.mark.parametrize("inner_timeout", [None, 2.0])
def test_an_abandoned_call_takes_its_nested_calls_with_it(
    yard: Any, touch: Touch, inner_timeout: float | None
) -> None:
    release, ended = threading.Event(), threading.Event()
    late: list[type[BaseException]] = []

    @tool(timeout=inner_timeout)
    def inner(*, context: ToolContext) -> ToolResult[None]:
        """Wait, then change something."""
        touch(context, "inner")
        release.wait(PATIENCE)
        try:
            touch(context, "late")
        except Exception as error:
            late.append(type(error))
        ended.set()
        return ToolResult.ok()

    @tool(timeout=1.0)
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call the other."""
        touch(context, "outer")
        context.call("inner")
        return ToolResult.ok()

    yard.open(inner, outer)
    outcome = yard.call("outer")
    release.set()

    assert outcome.status is Status.TIMED_OUT
    assert ended.wait(PATIENCE)
    until(lambda: len(yard.session[type(outcome.event)].all()) == 2)
    assert late == [CallClosed]
    yard.assert_untouched()
    nested = yard.events[-1]
    assert [each.tool_name for each in yard.events] == ["outer", "inner"]
    assert nested.status is Status.CANCELLED
    assert nested.text == (
        "inner was abandoned: it was called by outer, which timed out after 1 second."
    )


def test_an_abandoned_sync_call_cancels_its_nested_async_call(yard: Any, touch: Touch) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    @tool(timeout=None)
    async def inner(*, context: ToolContext) -> ToolResult[None]:
        """Wait for ever."""
        touch(context, "inner")
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ToolResult.ok()

    @tool(timeout=0.2)
    def outer(*, context: ToolContext) -> ToolResult[None]:
        """Call the other."""
        context.call("inner")
        return ToolResult.ok()

    yard.open(inner, outer)

    # Where the caller is given up before the other has begun, there is nothing to cancel.
    for _ in range(ATTEMPTS):
        assert yard.call("outer").status is Status.TIMED_OUT
        if begun.is_set():
            break
    assert cancelled.wait(PATIENCE)
    yard.assert_untouched()


def test_an_async_handler_that_blocks_its_loop_is_named_in_the_log(
    yard: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()

    @tool(timeout=0.1)
    async def blocks() -> ToolResult[None]:
        """Block the loop."""
        time.sleep(0.4)  # noqa: ASYNC251 - this is the fault
        ended.set()
        return ToolResult.ok()

    yard.open(blocks)
    with caplog.at_level(logging.WARNING, "toolstile.pipeline"):
        # Where it is given up before it has begun, it has blocked nothing.
        for _ in range(ATTEMPTS):
            outcome = yard.call("blocks")
            if comes_soon(lambda: "blocked" in caplog.text):
                break

    assert ended.wait(PATIENCE)
    assert "event loop" in caplog.text
    assert "blocks (" in caplog.text
    assert outcome.status is (Status.TIMED_OUT if yard.driver == "sync" else Status.SUCCEEDED)
    assert yard.events[-1] == outcome.event


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_abandoned_at_any_moment_leave_an_exclusive_resource_free_and_whole(
    yard: Any, is_async: bool
) -> None:
    ledger = Ledger()

    @tool(name="writes", timeout=0.01)
    def writes(text: str, seconds: float, *, context: ToolContext) -> ToolResult[None]:
        """Write, and take a while."""
        context.resources.get(Ledger).entries.append(text)
        time.sleep(seconds)
        return ToolResult.ok()

    @tool(name="writes", timeout=0.01)
    async def awrites(text: str, seconds: float, *, context: ToolContext) -> ToolResult[None]:
        """Write, and take a while."""
        (await context.resources.aget(Ledger)).entries.append(text)
        await asyncio.sleep(seconds)
        return ToolResult.ok()

    yard.open(awrites if is_async else writes, resources=(Binding.instance(Ledger, ledger),))
    chance = random.Random(7)
    kept: list[str] = []

    def dispatch_some(name: str) -> None:
        for number in range(25):
            text = f"{name}{number}"
            outcome = yard.call("writes", text=text, seconds=chance.uniform(0, 0.02))
            assert outcome.status in {Status.SUCCEEDED, Status.TIMED_OUT, Status.ERROR}
            if outcome.status is Status.ERROR:
                assert isinstance(outcome.event.error, ResourceBusyError), outcome.text
            if outcome.success:
                kept.append(text)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(dispatch_some, "abcd"))
    until(lambda: sorted(ledger.entries) == sorted(kept))
    until(lambda: yard.call("writes", text="last", seconds=0).success)
    assert ledger.entries[-1] == "last"
