"""A context that is kept longer than its call lasts can do nothing any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import pytest

from toolstile.pipeline.call import ActiveCall
from toolstile_hookspecs import (
    Binding,
    CallClosed,
    Cancellation,
    Deadline,
    Outcome,
    PromptEvaluationError,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)

# Only what never comes takes this long.
PATIENCE = 60.0
# By then a handler has begun, also on a busy machine.
SOON = 1.0


@tool
def inner() -> int:
    """Be called by others."""
    return 1


def keeping(kept: list[ToolContext], *, fails: bool, is_async: bool) -> Tool[Any, Any]:
    def end(context: ToolContext) -> None:
        kept.append(context)
        if fails:
            msg = "no"
            raise ValueError(msg)

    def keep(*, context: ToolContext) -> None:
        """Keep the context."""
        end(context)

    async def akeep(*, context: ToolContext) -> None:
        """Keep the context."""
        end(context)

    return tool(name="keep")(akeep if is_async else keep)


async def acall(context: ToolContext) -> Any:
    return await context.acall("inner")


LATER: dict[str, Callable[[ToolContext], Any]] = {
    "call": lambda context: context.call("inner"),
    "acall": lambda context: asyncio.run(acall(context)),
    "progress": lambda context: context.progress(1.0),
    "session": lambda context: context.session[int].latest(),
    "snapshot": lambda context: context.session.snapshot(),
    "resources": lambda context: context.resources.get(int),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("what", LATER)
def test_what_is_done_with_it_is_refused(yard: Any, what: str, fails: bool, is_async: bool) -> None:
    kept: list[ToolContext] = []
    reported: list[Any] = []
    yard.open(
        keeping(kept, fails=fails, is_async=is_async),
        inner,
        resources=(Binding.instance(int, 7),),
        on_progress=lambda *report: reported.append(report),
    )
    assert yard.call("keep").success is not fails

    with pytest.raises(CallClosed):
        LATER[what](kept[0])

    assert reported == []
    assert len(yard.events) == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
def test_who_hears_of_the_rollback_can_note_something_and_the_handler_cannot(
    yard: Any, is_async: bool
) -> None:
    told, hears, tried = threading.Event(), threading.Event(), threading.Event()
    refused: list[str] = []

    def note_late(context: ToolContext) -> None:
        assert hears.wait(PATIENCE)
        try:
            context.set_attribute("handler.late", 1)
        except CallClosed as closed:
            refused.append(str(closed))
        tried.set()

    @tool(timeout=0.1)
    def hangs(*, context: ToolContext) -> None:
        """Note something while others are told that it was rolled back."""
        note_late(context)

    @tool(timeout=0.1)
    async def ahangs(*, context: ToolContext) -> None:
        """Do that in a thread."""
        await asyncio.to_thread(note_late, context)

    class Hearer:
        @hookimpl
        def toolstile_rollback(self, context: ToolContext) -> None:
            hears.set()
            assert tried.wait(PATIENCE)
            context.set_attribute("hearer.why", "too late")
            told.set()

    yard.open(ahangs if is_async else hangs, plugins=(Hearer(),))
    outcome = yard.call("ahangs" if is_async else "hangs")

    assert outcome.status is Status.TIMED_OUT
    assert told.is_set()
    assert dict(outcome.event.attributes) == {"hearer.why": "too late"}
    assert len(refused) == 1


def test_a_nested_call_that_is_not_awaited_keeps_nothing(
    make_yard: Any, mark: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    yard = make_yard("async")
    tasks: list[asyncio.Future[Any]] = []
    go_on = asyncio.Event()

    @tool
    async def late(*, context: ToolContext) -> None:
        """Change something too late."""
        await go_on.wait()
        context.session[mark].append(mark("late"))

    @tool
    async def hasty(*, context: ToolContext) -> None:
        """Call another tool and do not wait for it."""
        context.session[mark].append(mark("kept"))
        tasks.append(asyncio.ensure_future(context.acall("late")))
        await asyncio.sleep(0)

    yard.open(late, hasty)

    async def main() -> None:
        assert (await yard.tools.adispatch(ToolCall("hasty"))).success
        go_on.set()
        outcome = await asyncio.wait_for(tasks[0], 30)
        assert not outcome.success

    asyncio.run(main())

    assert yard.marks == ["kept"]


@pytest.mark.parametrize("begins", ["before", "after"])
def test_a_nested_call_that_outlives_its_caller_is_told_so(make_yard: Any, begins: str) -> None:
    yard = make_yard("async")
    tasks: list[asyncio.Future[Any]] = []
    go_on = asyncio.Event()

    @tool
    async def late() -> None:
        """End when its caller has."""
        await go_on.wait()

    @tool
    async def hasty(*, context: ToolContext) -> None:
        """Call another tool and do not wait for it."""
        tasks.append(asyncio.ensure_future(context.acall("late")))
        if begins == "before":
            await asyncio.sleep(0)

    yard.open(late, hasty)

    async def main() -> None:
        assert (await yard.tools.adispatch(ToolCall("hasty"))).success
        go_on.set()
        outcome = await asyncio.wait_for(tasks[0], PATIENCE)
        told = "late was abandoned: it was called by hasty, which has ended."
        assert (outcome.status, outcome.text) == (Status.CANCELLED, told)

    asyncio.run(main())


def test_a_nested_call_that_opens_as_its_caller_ends_is_told_so(
    make_yard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Outcome] = []
    opens, ended = threading.Event(), threading.Event()

    @tool
    def hasty(*, context: ToolContext) -> None:
        """Call another tool and do not wait for it."""
        thread = threading.Thread(target=lambda: outcomes.append(context.call("inner")))
        threads.append(thread)
        thread.start()
        assert opens.wait(PATIENCE)

    def open_late(run: ActiveCall) -> None:
        if run.parent is not None:
            opens.set()
            assert ended.wait(PATIENCE)
        open_run(run)

    threads: list[threading.Thread] = []
    open_run = ActiveCall.fork
    monkeypatch.setattr(ActiveCall, "fork", open_late)
    yard = make_yard("sync")
    yard.open(inner, hasty)

    assert yard.call("hasty").success
    ended.set()
    threads[0].join(PATIENCE)

    told = "inner was abandoned: it was called by hasty, which has ended."
    assert [(each.status, each.text) for each in outcomes] == [(Status.CANCELLED, told)]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["timeout", "deadline", "cancellation", "caller's timeout"])
def test_a_handler_that_was_given_up_is_told_why(yard: Any, ending: str) -> None:
    go_on, told, stop = threading.Event(), SimpleQueue[str](), Cancellation()

    @tool(timeout=SOON if ending == "timeout" else None)
    def waits(*, context: ToolContext) -> None:
        """Wait until it is given up, then look at the session."""
        if ending == "cancellation":
            stop.cancel()
        go_on.wait(PATIENCE)
        for what in ("session", "progress"):
            with pytest.raises(CallClosed) as closed:
                LATER[what](context)
            told.put(str(closed.value))

    @tool(timeout=SOON)
    def outer(*, context: ToolContext) -> None:
        """Wait for the other one."""
        context.call("waits")

    yard.open(waits, outer)
    call = ToolCall(
        "outer" if ending == "caller's timeout" else "waits",
        cancellation=stop,
        deadline=Deadline.after(SOON) if ending == "deadline" else None,
    )
    with suppress(PromptEvaluationError):
        assert not yard.dispatch(call).success
    go_on.set()

    who, why = {
        "timeout": ("waits", "waits timed out after 1 second"),
        "deadline": ("waits", "waits met the evaluation's deadline"),
        "cancellation": ("waits", "waits was cancelled"),
        "caller's timeout": (
            "outer",
            "waits was called by outer, which timed out after 1 second",
        ),
    }[ending]
    of_session, of_progress = told.get(timeout=PATIENCE), told.get(timeout=PATIENCE)
    assert of_session.startswith(who)
    assert of_session.endswith(", so it can neither read nor change the session any more.")
    assert of_progress == f"{why}, so it can change nothing more."


def test_a_handler_whose_caller_was_cancelled_is_told(make_yard: Any) -> None:
    yard = make_yard("async")
    go_on, told = threading.Event(), SimpleQueue[str]()
    begun = threading.Event()

    @tool
    def waits(*, context: ToolContext) -> None:
        """Wait until its caller is gone, then look at the session."""
        begun.set()
        go_on.wait(PATIENCE)
        with pytest.raises(CallClosed) as closed:
            context.progress(1.0)
        told.put(str(closed.value))

    yard.open(waits)

    async def main() -> None:
        task = asyncio.ensure_future(yard.tools.adispatch(ToolCall("waits")))
        await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    go_on.set()

    assert told.get(timeout=PATIENCE) == (
        "waits lost its caller, which was cancelled, so it can change nothing more."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("timeout", "why"),
    [
        (SOON, "waits timed out after 1 second"),
        (PATIENCE, "waits lost its caller, which was cancelled"),
    ],
)
def test_so_is_one_that_awaits(make_yard: Any, timeout: float, why: str) -> None:
    yard = make_yard("async")
    told: list[str] = []

    @tool(timeout=timeout)
    async def waits(*, context: ToolContext) -> None:
        """Wait until it is cancelled, then look at the session."""
        try:
            begun.set()
            await asyncio.sleep(PATIENCE)
        finally:
            with pytest.raises(CallClosed) as closed:
                context.progress(1.0)
            told.append(str(closed.value))

    yard.open(waits)
    begun = asyncio.Event()

    async def main() -> None:
        task = asyncio.ensure_future(yard.tools.adispatch(ToolCall("waits")))
        await begun.wait()
        if timeout == PATIENCE:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert told == [f"{why}, so it can change nothing more."]
