"""Jobs: steps under way on a worker thread, on an event loop, or behind other calls."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import os
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter, sleep
from typing import Any, ClassVar, Final, Protocol

from toolstile.drivers.background_loop import Background
from toolstile.drivers.limit import Limit, why_given_up
from toolstile.resources.exclusive import OneShotGate
from toolstile_hookspecs import StateError
from toolstile_hookspecs.support.eager_task import begin
from toolstile_hookspecs.support.event_loop import Workers
from toolstile_hookspecs.support.process import renewed_in_forks


class Abandonable(Protocol):
    """The owner of a job: it learns of the abandonment and of the job's end after that."""

    def abandon(self, reason: str) -> None:
        """Close everything the job could still change."""

    def callable_ended(self) -> None:
        """Hear, on its thread, that a handler has ended."""

    def ended_late(self) -> None:
        """Hear that an abandoned job has ended."""


class HandlerTiming:
    """The time that a tool's handler took lately on a worker thread, without the way there."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = math.inf


@dataclass(slots=True)
class Run:
    """Run this function - a handler, an approver, a hook that waits - within a limit.

    Args:
        function: Called without arguments.
        is_async: Whether calling it gives a coroutine.
        limit: When to give it up.
        owner: The call that it is run for.
        inline: Whether it may run on the driver's own thread, or in its own task.
        uninterruptible: Whether an interruption has to wait until it has ended; a second one
            does not.
        pace: Where to note how long it takes on a worker thread, for the next time.
    """

    function: Callable[[], Any]
    is_async: bool
    limit: Limit
    owner: Abandonable
    inline: bool
    uninterruptible: bool = False
    pace: HandlerTiming | None = None


@dataclass(slots=True)
class WaitFor:
    """Wait until this is granted, within a limit."""

    waitable: OneShotGate
    limit: Limit
    uninterruptible: ClassVar[bool] = False
    pace: ClassVar[None] = None


Step = Run | WaitFor

Staged = Generator[Step, Any, Any]
"""A part of a pipeline: its requests, the answers that it is sent, its return value."""


log = logging.getLogger("toolstile.pipeline")
BLOCKED = 0.05
BRIEF: Final = 50e-6
"""Seconds: a handler that takes longer is not worth a spin."""
MOMENT: Final = 100e-6
"""Seconds: the length of a spin, with the time that the other thread takes to wake up."""

# It lets other threads run, also threads that wait for the interpreter. Windows lacks it.
_let_others_run: Callable[[], None] | None = getattr(os, "sched_yield", None)
_WAITS_FOR_ITSELF = (
    "it is async, and was dispatched from the event loop that has to run it, which would wait "
    "for itself; write: await executor.adispatch(call)"
)
# Held for moments: a job that ends late waits until its owner knows that it is abandoned.
_giving_up = renewed_in_forks(__name__, "_giving_up", threading.Lock)


class Job:
    """A step under way; one compare-and-set decides whether it finished or was abandoned.

    `wake` is called, on any thread, when it may have finished, or was cancelled.
    """

    __slots__ = (
        "_answer",
        "_begun",
        "_claim",
        "_forget",
        "_loop",
        "_task",
        "_wake",
        "_workers",
        "error",
        "finished",
        "step",
    )

    def __init__(self, step: Step, wake: Callable[[], None]) -> None:
        self.step = step
        self.finished = False
        self._wake = wake
        self._answer: Any = None
        self.error: BaseException | None = None
        self._claim = threading.Lock()
        # Taken by the first: the start, or an abandonment before it.
        self._begun = threading.Lock()
        self._forget: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, workers: Workers, background: Background | None) -> None:
        """Begin, with the context variables of the caller; a step that cannot begin has failed.

        An async step begins on `background`; see `OwnTask` for the caller's own loop. It may be
        begun again if an interruption leaves open whether it was begun.
        """
        step, self._workers = self.step, workers
        if step.limit.cancellation is not None:
            self._forget = step.limit.cancellation.on_cancel(self._wake)
        if isinstance(step, WaitFor):
            step.waitable.on_grant(self._grant)
            return
        try:
            if not step.is_async:
                workers.submit(partial(contextvars.copy_context().run, partial(self._work, step)))
            elif background is None or background.is_here:
                self._finish(step, None, StateError(_WAITS_FOR_ITSELF))
            else:
                self._loop = background.loop
                self._loop.call_soon_threadsafe(self._begin, step)
        except Exception as error:  # noqa: BLE001 - raised where the call was dispatched
            self._finish(step, None, error)

    def spin(self) -> None:
        """Look for the end of a brief handler for a moment, which costs less than to sleep."""
        pace = self.step.pace
        if pace is None or pace.seconds >= BRIEF or _let_others_run is None:
            return
        until = perf_counter() + MOMENT
        while not self.finished and perf_counter() < until:
            _let_others_run()

    def join(self) -> None:
        """Wait in this thread for the end of a worker's job whose event loop is gone."""
        while not self.finished:
            sleep(MOMENT)

    def check_limit(self, mark: Any = None) -> None:
        """Give the job up where its limit is over or the call of a mark is stopped; see `CURRENT`.

        The answer is the reason, then.
        """
        if self.finished:
            return
        fault = self.step.limit.fault()
        if fault is None and mark is not None and not self.step.uninterruptible:
            call = mark[0] if mark.__class__ is tuple else mark
            fault = call.executor.engine.gate.fault(call)
        if fault is not None and self.give_up(why_given_up(fault)):
            self.error = fault
            self.finished = True

    def give_up(self, reason: str) -> bool:
        """Abandon the job unless it has finished; tell which."""
        self._listen_no_more()
        step = self.step
        if isinstance(step, WaitFor):
            return not self.finished
        with _giving_up:
            if not self._claim.acquire(blocking=False):
                return False
            step.owner.abandon(reason)
        if self._begun.acquire(blocking=False):
            # Because it never begins, its end is reported here.
            step.owner.ended_late()
        elif self._loop is not None:
            # A loop that is closed runs nothing any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel, step, monotonic())
        return True

    def answer(self) -> Any:
        """Return the finished job's value, or raise its exception or reason of abandonment."""
        if self._forget is not None:
            self._listen_no_more()
        if self.error is not None:
            raise self.error
        if self.step.__class__ is WaitFor:
            # It may have waited for another call with the same deadline.
            self.step.limit.check()
        return self._answer

    def _listen_no_more(self) -> None:
        forget, self._forget = self._forget, None
        if forget is not None:
            forget()

    def _grant(self) -> None:
        self.finished = True
        self._wake()

    def _work(self, step: Run) -> None:
        if not self._begun.acquire(blocking=False):
            return
        started = perf_counter()
        try:
            try:
                answer = step.function()
            finally:
                if step.pace is not None:
                    step.pace.seconds = perf_counter() - started
        except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
            self._finish(step, None, error)
        else:
            self._finish(step, answer, None)

    def _begin(self, step: Run) -> None:
        if self._begun.acquire(blocking=False):
            self._task = begin(asyncio.get_running_loop(), self._await(step))

    async def _await(self, step: Run) -> None:
        # A task that raises KeyboardInterrupt or SystemExit would tear its loop down.
        try:
            answer = await step.function()
        except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
            self._finish(step, None, error)
        else:
            self._finish(step, answer, None)

    def _finish(self, step: Run, answer: Any, error: BaseException | None) -> None:
        if step.pace is not None and (error is None or isinstance(error, Exception)):
            # An interrupted job has not ended by itself.
            step.owner.callable_ended()
        if self._claim.acquire(blocking=False):
            self._answer, self.error = answer, error
            self.finished = True
            self._wake()
            return
        with _giving_up:
            pass
        if step.is_async:
            # Its changes are undone, which may take a while.
            self._workers.submit(step.owner.ended_late)
        else:
            step.owner.ended_late()

    def _cancel(self, step: Run, given_up: float) -> None:
        if self._task is not None:
            self._task.cancel()
        blocked = monotonic() - given_up
        if blocked > BLOCKED:
            log.warning(
                "The event loop of %s was blocked for another %.1f s after its timeout; "
                "make it await, or write it as a plain function.",
                step.owner,
                blocked,
            )


class OwnTask(Job):
    """An async step in a task on its caller's loop: all happens on one thread, without locks.

    `wake_here` is called on that loop when the step has finished, `wake` when it was cancelled.
    """

    __slots__ = ("_wake_here",)
    step: Run

    def __init__(  # pyright: ignore[reportMissingSuperCall] - makes locks
        self, step: Run, wake: Callable[[], None], wake_here: Callable[[], None]
    ) -> None:
        self.step, self._wake, self._wake_here = step, wake, wake_here
        self.finished = False
        self.error = self._answer = self._forget = self._task = None

    def start(self, workers: Workers, background: Background | None) -> None:  # noqa: ARG002 - as `Job`
        """Begin; most steps end at once."""
        self._workers = workers
        self._task = begin(asyncio.get_running_loop(), self._await(self.step))
        cancellation = self.step.limit.cancellation
        if cancellation is not None and not self.finished:
            self._forget = cancellation.on_cancel(self._wake)

    def give_up(self, reason: str) -> bool:
        self._listen_no_more()
        if self.finished:
            return False
        self.finished = True
        self.step.owner.abandon(reason)
        if self._task is None:
            self.step.owner.ended_late()
        else:
            self._task.cancel()
        return True

    def _finish(self, step: Run, answer: Any, error: BaseException | None) -> None:
        if step.pace is not None and (error is None or isinstance(error, Exception)):
            step.owner.callable_ended()
        if self.finished:
            # It was abandoned, and its changes are undone, which may take a while.
            self._workers.submit(step.owner.ended_late)
            return
        self._answer, self.error, self.finished = answer, error, True
        self._wake_here()
