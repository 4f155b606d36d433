"""Every hook may return an awaitable when it must wait, under both drivers."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import signal
import threading
import warnings
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from toolstile.pipeline.commit import take_part_later
from toolstile.pipeline.hook_calls import on_worker
from toolstile_hookspecs import (
    Binding,
    Cancellation,
    Deadline,
    Outcome,
    PolicyDecision,
    PromptEvaluationError,
    Scope,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

Touch = Callable[..., None]

# Only what never comes takes this long.
PATIENCE = 30.0


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


@dataclass
class Slow:
    """An awaitable that is no coroutine."""

    value: Any

    def __await__(self) -> Generator[Any, Any, Any]:
        return later(self.value).__await__()


class Passing:
    """Waits at every stage, and has nothing to say."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.threads: set[int] = set()

    async def _pass(self, stage: str) -> None:
        await asyncio.sleep(0)
        self.seen.append(stage)
        self.threads.add(threading.get_ident())

    @hookimpl
    def toolstile_lookup(self) -> Awaitable[None]:
        return self._pass("lookup")

    @hookimpl
    async def toolstile_parse(self) -> None:
        await self._pass("parse")

    @hookimpl
    async def toolstile_check(self) -> None:
        await self._pass("check")

    @hookimpl
    async def toolstile_snapshot(self) -> None:
        await self._pass("snapshot")

    @hookimpl
    async def toolstile_execute(self) -> None:
        await self._pass("execute")

    @hookimpl
    async def toolstile_on_result(self) -> None:
        await self._pass("on_result")


STAGES = ["lookup", "parse", "check", "snapshot", "execute", "on_result"]


def test_one_that_awaits_and_answers_none_passes_on(yard: Any) -> None:
    passing = Passing()
    yard.open(add, plugins=(passing,))

    assert yard.call("add", a=1, b=2).text == "3"
    assert passing.seen == STAGES
    assert len(passing.threads) == 1
    if yard.driver == "sync":
        assert threading.get_ident() not in passing.threads
    else:
        assert passing.threads == {threading.get_ident()}


class Answering:
    """Answers some stages, after waiting."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make
        self.result: list[Any] = []

    @hookimpl
    def toolstile_lookup(self, call: ToolCall) -> Any:
        return self.make(add if call.name == "plus" else None)

    @hookimpl
    def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> Any:
        return self.make(tool.params_codec.decode('{"a": 40, "b": 2}'))

    @hookimpl
    def toolstile_on_result(self, result: ToolResult[Any]) -> Any:
        self.result.append(result.value)
        return self.make(None)


@pytest.mark.parametrize("make", [later, Slow])
def test_what_it_gives_counts(yard: Any, make: Callable[[Any], Any]) -> None:
    answering = Answering(make)
    yard.open(add, plugins=(answering,))

    assert yard.call("plus", a=1, b=2).text == "42"
    assert answering.result == [42]


@pytest.mark.parametrize("make", [later, Slow])
def test_a_check_may_wait_before_it_denies(yard: Any, make: Callable[[Any], Any]) -> None:
    class Denying:
        @hookimpl
        def toolstile_check(self) -> Any:
            return make(PolicyDecision.deny("Not today."))

    yard.open(add, plugins=(Denying(),))

    outcome = yard.call("add", a=1, b=2)

    assert (outcome.status, outcome.text) == (Status.DENIED, "Not today.")


class Participating:
    """A participant whose every step waits."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.steps: list[str] = []

    async def _step(self, name: str) -> None:
        await asyncio.sleep(0)
        self.steps.append(name)
        if name == self.fails:
            raise ValueError(name)

    def prepare(self) -> Awaitable[None]:
        return self._step("prepare")

    def commit(self) -> Awaitable[None]:
        return self._step("commit")

    def rollback(self) -> Awaitable[None]:
        return self._step("rollback")

    @hookimpl
    def toolstile_snapshot(self) -> Any:
        return later(self)


@pytest.mark.parametrize(
    ("fails", "status", "steps"),
    [
        ("", Status.SUCCEEDED, ["prepare", "commit"]),
        ("prepare", Status.ERROR, ["prepare", "rollback"]),
        ("commit", Status.COMMIT_FAILED, ["prepare", "commit"]),
    ],
)
def test_a_participants_steps_may_wait(
    yard: Any, fails: str, status: Status, steps: list[str]
) -> None:
    participant = Participating(fails)
    yard.open(add, plugins=(participant,))

    assert yard.call("add", a=1, b=2).status is status
    assert participant.steps == steps


def test_the_tasks_cancellation_does_not_tear_a_commit(make_yard: Any, touch: Touch) -> None:
    yard = make_yard("async")
    reached = asyncio.Event()

    class Committing(Participating):
        async def _step(self, name: str) -> None:
            if name == "commit":
                reached.set()
                await asyncio.sleep(0.01)
            self.steps.append(name)

    @tool
    def marked(*, context: ToolContext) -> None:
        """Change something."""
        touch(context)

    committing = Committing()
    yard.open(marked, plugins=(committing,))

    async def main() -> None:
        task = asyncio.ensure_future(yard.tools.adispatch(ToolCall("marked")))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert committing.steps == ["prepare", "commit"]
    assert yard.marks == yard.box.items == ["x"]


@pytest.mark.parametrize("at", ["prepare", "commit", "rollback"])
def test_a_step_that_exits_leaves_dispatch_when_all_is_done(
    yard: Any, touch: Touch, at: str
) -> None:
    class Exiting(Participating):
        async def _step(self, name: str) -> None:
            await super()._step(name)
            if name == at:
                raise SystemExit(3)

    @tool
    def marked(*, context: ToolContext) -> None:
        """Change something."""
        touch(context)

    exiting = Exiting("prepare" if at == "rollback" else "")
    yard.open(marked, plugins=(exiting,))

    with pytest.raises(SystemExit):
        yard.call("marked")

    assert exiting.steps == ["prepare", "commit" if at == "commit" else "rollback"]
    assert yard.marks == yard.box.items == (["x"] if at == "commit" else [])
    assert len(yard.events) == 1


class Interrupting(Participating):
    """Interrupts the main thread in the midst of a step."""

    def __init__(self, at: str) -> None:
        super().__init__("prepare" if at == "rollback" else "")
        self.at = at

    async def _step(self, name: str) -> None:
        if name == self.at:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.sleep(0.01)
        await super()._step(name)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("at", "steps", "marks"),
    [
        ("prepare", ["prepare", "commit"], ["x"]),
        ("commit", ["prepare", "commit"], ["x"]),
        ("rollback", ["prepare", "rollback"], []),
    ],
)
def test_an_interrupt_leaves_nothing_half_done(  # noqa: PLR0917 - a case has these
    make_yard: Any, touch: Touch, at: str, steps: list[str], marks: list[str], together: bool
) -> None:
    @tool
    def marked(*, context: ToolContext) -> None:
        """Change something."""
        touch(context)

    yard = make_yard("sync")
    interrupting = Interrupting(at)
    yard.open(marked, plugins=(interrupting,))

    call = ToolCall("marked")
    with pytest.raises(KeyboardInterrupt):
        yard.dispatch_all([call]) if together else yard.dispatch(call)

    assert interrupting.steps == steps
    assert yard.marks == yard.box.items == marks
    assert len(yard.events) == 1


class Closed:
    """Interrupts while it is closed, at the end of the call that it lives for."""

    def close(self) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("together", [False, True])
def test_an_interrupt_at_the_end_of_a_call_leaves_when_it_has_ended(
    make_yard: Any, touch: Touch, together: bool
) -> None:
    @tool
    def marked(*, context: ToolContext) -> None:
        """Change something."""
        context.resources.get(Closed)
        touch(context)

    yard = make_yard("sync")
    yard.open(marked, resources=[Binding(Closed, lambda _: Closed(), Scope.TOOL_CALL)])

    call = ToolCall("marked")
    with pytest.raises(KeyboardInterrupt):
        yard.dispatch_all([call]) if together else yard.dispatch(call)

    assert yard.marks == yard.box.items == ["x"]
    assert [each.status for each in yard.events] == [Status.SUCCEEDED]


class Hanging:
    """Waits for ever at one stage."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.reached = threading.Event()
        self.left = threading.Event()

    async def _wait(self, stage: str) -> None:
        if stage == self.stage:
            self.reached.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()

    @hookimpl
    async def toolstile_lookup(self) -> None:
        await self._wait("lookup")

    @hookimpl
    async def toolstile_parse(self) -> None:
        await self._wait("parse")

    @hookimpl
    async def toolstile_check(self) -> None:
        await self._wait("check")

    @hookimpl
    async def toolstile_snapshot(self) -> None:
        await self._wait("snapshot")

    @hookimpl
    async def toolstile_execute(self) -> None:
        await self._wait("execute")

    @hookimpl
    async def toolstile_on_result(self) -> None:
        await self._wait("on_result")


@pytest.mark.parametrize("stage", STAGES)
def test_cancelling_ends_the_wait_of_any_hook(yard: Any, touch: Touch, stage: str) -> None:
    @tool
    def marked(*, context: ToolContext) -> None:
        """Change something."""
        touch(context)

    hanging = Hanging(stage)
    yard.open(marked, plugins=(hanging,))
    stop = Cancellation()

    def cancel() -> None:
        hanging.reached.wait(30)
        stop.cancel()

    threading.Thread(target=cancel, daemon=True).start()
    outcome = yard.dispatch(ToolCall("marked", cancellation=stop))

    assert (outcome.status, outcome.text) == (Status.CANCELLED, "Request was cancelled")
    assert hanging.left.wait(30)
    yard.assert_untouched()


class LateParticipating(Participating):
    """A participant that comes when its call was cancelled."""

    def __init__(self, stop: Cancellation) -> None:
        super().__init__()
        self._stop = stop
        self.ended = threading.Event()

    async def _step(self, name: str) -> None:
        await super()._step(name)
        self.ended.set()

    @hookimpl
    async def toolstile_snapshot(self) -> LateParticipating:  # type: ignore[override]
        self._stop.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE)
        return self


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_participant_that_comes_when_its_call_was_given_up_is_rolled_back(
    make_yard: Any, driver: str
) -> None:
    yard = make_yard(driver)
    stop = Cancellation()
    participant = LateParticipating(stop)
    yard.open(add, plugins=(participant,))
    call = ToolCall("add", {"a": 1, "b": 2}, cancellation=stop)

    async def dispatch() -> Outcome:
        outcome: Outcome = await yard.tools.adispatch(call)
        await asyncio.to_thread(participant.ended.wait, PATIENCE)
        return outcome

    outcome = yard.dispatch(call) if driver == "sync" else asyncio.run(dispatch())

    assert outcome.status is Status.CANCELLED
    assert participant.ended.wait(PATIENCE)
    assert participant.steps == ["rollback"]


def test_a_late_participants_rollback_is_not_cancelled_with_its_hook(yard: Any) -> None:
    begun, rolled_back = threading.Event(), threading.Event()

    class Late(Participating):
        def rollback(self) -> Awaitable[None]:
            begun.set()
            return super().rollback()

        async def _step(self, name: str) -> None:
            await super()._step(name)
            rolled_back.set()

    participant = Late()
    hook: Any = SimpleNamespace(plugin="desk")
    tools = yard.open(add)

    async def main() -> None:
        driver = tools.engine.asynchronous
        control = SimpleNamespace(off_loop=lambda f: driver.attend(on_worker(yard, f)))
        call: Any = SimpleNamespace(adopt_participants=lambda _: False, control=control)
        task = asyncio.ensure_future(take_part_later(call, hook, later(participant)))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        task.cancel()
        await asyncio.wait([task])
        assert await asyncio.to_thread(rolled_back.wait, PATIENCE)

    asyncio.run(main())

    assert participant.steps == ["rollback"]


def test_nobody_warns_of_a_hook_that_is_given_up_before_its_wait_begins(
    yard: Any, recwarn: pytest.WarningsRecorder
) -> None:
    stop = Cancellation()

    class Cancelling:
        """Returns what waits when the call is cancelled already."""

        @hookimpl
        def toolstile_check(self) -> Awaitable[None]:
            stop.cancel()
            return later(None)

    yard.open(add, plugins=(Cancelling(),))
    warnings.simplefilter("always")
    # Which of both comes first, the end or the wait, is for the threads to decide.
    for _ in range(20):
        stop = Cancellation()
        call = ToolCall("add", {"a": 1, "b": 2}, cancellation=stop)
        assert yard.dispatch(call).status is Status.CANCELLED
    gc.collect()

    assert [str(each.message) for each in recwarn] == []


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_the_deadline_ends_the_wait_of_any_hook(yard: Any, touch: Touch, stage: str) -> None:
    @tool
    def marked(*, context: ToolContext) -> None:
        """Change something."""
        touch(context)

    hanging = Hanging(stage)
    yard.open(marked, plugins=(hanging,))

    # On a busy machine the first ones may pass before the stage is reached.
    for seconds in (0.5, 4.0, 30.0):
        with pytest.raises(PromptEvaluationError):
            yard.dispatch(ToolCall("marked", deadline=Deadline.after(seconds)))
        if hanging.reached.is_set():
            break

    assert hanging.left.wait(30)
    yard.assert_untouched()
    assert {event.status for event in yard.events} == {Status.DEADLINE}


CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("CURRENT", default="nothing")


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_hooks_and_handlers_see_the_callers_context_variables(
    yard: Any, timeout: float | None
) -> None:
    seen: list[str] = []

    @tool(timeout=timeout)
    def look() -> str:
        """Look."""
        return CURRENT.get()

    @tool(timeout=timeout)
    async def alook() -> str:
        """Look."""
        return CURRENT.get()

    class Looking:
        @hookimpl
        async def toolstile_check(self) -> None:
            seen.append(CURRENT.get())

    yard.open(look, alook, plugins=(Looking(),))
    token = CURRENT.set("mine")
    try:
        assert [yard.call("look").text, yard.call("alook").text] == ["mine", "mine"]
    finally:
        CURRENT.reset(token)
    assert seen == ["mine", "mine"]
