"""Carries out pipelines on the caller's event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from toolstile.drivers.background_loop import Background, guarded
from toolstile.drivers.commands import Run, Step, WaitFor, raised
from toolstile.drivers.job import Job
from toolstile.drivers.limit import (
    CALLER_CANCELLED,
    INTERRUPTED,
    Cancelled,
    Limit,
    TimedOut,
    why_given_up,
)
from toolstile.drivers.sync_driver import Pipeline
from toolstile.drivers.threads import Workers, spin_until
from toolstile_hookspecs import DeadlineExceededError
from toolstile_hookspecs.support.event_loop import begin

T = TypeVar("T")
log = logging.getLogger("toolstile.pipeline")
# A busy loop may look a little late at what is over.
BLOCKED = 0.1


class AsyncDriver:
    """Runs pipelines on the loop of whoever awaits them; asyncio only.

    Args:
        workers: Runs sync functions, so that the loop goes on.
        background: The host's own loop; only handed on.
    """

    __slots__ = ("_background", "_workers")

    def __init__(self, workers: Workers, background: Background) -> None:
        self._workers = workers
        self._background = background

    async def drive(self, pipeline: Pipeline[T]) -> T:
        """Run one pipeline to its end and return what it returns."""
        try:
            step = next(pipeline)
            while True:
                try:
                    answer = await self._perform(step)
                except BaseException as error:  # noqa: BLE001 - the pipeline decides
                    step = pipeline.throw(error)
                else:
                    step = pipeline.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            pipeline.close()

    async def drive_all(
        self, pipelines: Sequence[Pipeline[T]], ended: Callable[[int], None]
    ) -> list[T | BaseException]:
        """Run several to their ends, side by side; an exception stands in its place.

        Args:
            pipelines: The pipelines.
            ended: Called with the place of each that has ended, also before its first step.
        """
        tasks = [asyncio.ensure_future(_kept(self.drive(each))) for each in pipelines]
        for index, task in enumerate(tasks):
            task.add_done_callback(lambda _, index=index: ended(index))  # type: ignore[misc]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        return [task.result() for task in tasks]

    def _perform(self, step: Step) -> Awaitable[Any]:
        if isinstance(step, WaitFor):
            return _wait_for(step)
        if not step.is_async:
            return self._run_elsewhere(step)
        if step.uninterruptible:
            return _see_through(step.function())
        if step.limit.endless:
            work: Awaitable[Any] = step.function()
            return work
        return _Attended(step).run()

    async def _run_elsewhere(self, step: Run) -> Any:
        job = Job(step)
        job.start(self._workers, self._background)
        if step.is_brief and _looked_out_for(job):
            return job.answer()
        waiter = _Waiter(asyncio.get_running_loop())
        job.when_finished(waiter.wake_from_thread)
        await waiter.until(lambda: job.finished, step.limit, job.give_up)
        return job.answer()


def _looked_out_for(job: Job) -> bool:
    """Look out for the end of a job for a moment, which costs less than a turn of the loop."""
    try:
        return spin_until(lambda: job.finished)
    except BaseException:
        job.give_up(INTERRUPTED)
        raise


async def _see_through(work: Coroutine[Any, Any, Any]) -> Any:
    """Await something to its end, and be cancelled after it; cancelling twice ends it, too."""
    task = asyncio.ensure_future(guarded(work))
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            if interruption is not None:
                task.cancel()
                raise
            interruption = error
    value, failure = task.result()
    if failure is not None:
        raise failure
    if interruption is not None:
        raise interruption
    return value


async def _wait_for(step: WaitFor) -> None:
    if step.waitable.granted:
        return
    waiter = _Waiter(asyncio.get_running_loop())
    step.waitable.on_grant(waiter.wake_from_thread)
    await waiter.until(lambda: step.waitable.granted, step.limit, lambda _: True)
    # What it waited for may have been another call with the same deadline.
    step.limit.check()


class _Attended:
    """An async step in a task of its own, given up when its limit says so.

    The task is not waited for then: a handler that ignores its cancellation, or whose
    cleanup hangs, holds nobody up. All of it happens on one thread, so that there is
    no doubt whether the step had ended when it was given up.
    """

    __slots__ = ("_answer", "_done", "_has_ended", "_loop", "_step", "_task", "_timer")

    _task: asyncio.Task[None]

    def __init__(self, step: Run) -> None:
        self._step = step
        self._loop = asyncio.get_running_loop()
        self._answer: tuple[Any, BaseException | None] | None = None
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    async def run(self) -> Any:
        """Run the step; return what it gives, raise what it raises or why it was given up."""
        step = self._step
        self._task = begin(self._loop, self._work())
        if self._answer is None:
            await self._wait()
        assert self._answer is not None  # noqa: S101 - just waited for
        value, error = self._answer
        if step.limit.overran():
            _warn_if_blocked(step, error)
        if error is not None:
            raise error
        return value

    async def _wait(self) -> None:
        """Wait until the step has ended, or was given up."""
        done = self._done = self._loop.create_future()
        # Only now: a task that is cancelled before it begins would never tell that it has ended.
        cancellation = self._step.limit.cancellation
        forget = None if cancellation is None else cancellation.on_cancel(self._look_from_thread)
        try:
            self._set_timer()
            await done
        except asyncio.CancelledError:
            if done.cancelled():
                self._give_up(CALLER_CANCELLED)
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if forget is not None:
                forget()

    async def _work(self) -> None:
        step = self._step
        answer: tuple[Any, BaseException | None]
        try:
            answer = await step.function(), None
        except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
            answer = None, raised(error)
        self._has_ended = True
        if self._done is None:
            self._answer = answer
        elif self._done.done():
            step.owner.ended_late()
        else:
            self._answer = answer
            self._done.set_result(None)

    def _look(self) -> None:
        if self._done is None or self._done.done():
            return
        fault = self._step.limit.fault()
        if fault is None:
            self._set_timer()
        else:
            self._give_up(why_given_up(fault))
            self._answer = None, fault
            self._done.set_result(None)

    def _look_from_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:
            log.debug("A call was cancelled after its event loop was closed.")

    def _set_timer(self) -> None:
        remaining = self._step.limit.remaining()
        if remaining is not None:
            self._timer = self._loop.call_later(remaining, self._look)

    def _give_up(self, reason: str) -> None:
        self._step.owner.abandon(reason)
        if self._has_ended:
            # It ended after its caller was cancelled, and before the caller could know.
            self._step.owner.ended_late()
        else:
            self._task.cancel()


class _Waiter:
    """Wakes one coroutine, from its loop or from another thread."""

    __slots__ = ("_future", "_loop", "_timer", "_woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._woken = False

    def wake(self) -> None:
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def wake_from_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.wake)
        except RuntimeError:
            log.debug("A job ended after its event loop was closed.")

    async def until(
        self, ended: Callable[[], bool], limit: Limit, give_up: Callable[[str], bool]
    ) -> None:
        """Wait until something has ended, or the limit says why not any longer."""
        forget = None
        if limit.cancellation is not None:
            forget = limit.cancellation.on_cancel(self.wake_from_thread)
        try:
            while not ended():
                await self.wait(limit.remaining())
                fault = None if ended() else limit.fault()
                if fault is not None and give_up(why_given_up(fault)):
                    raise fault
        except asyncio.CancelledError:
            give_up(CALLER_CANCELLED)
            raise
        finally:
            if forget is not None:
                forget()

    async def wait(self, seconds: float | None) -> None:
        if not self._woken:
            self._future = self._loop.create_future()
            if seconds is not None:
                self._timer = self._loop.call_later(seconds, self.wake)
            try:
                await self._future
            finally:
                self.close()
        self._woken = False

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _warn_if_blocked(step: Run, error: BaseException | None) -> None:
    given_up = isinstance(error, (TimedOut, DeadlineExceededError, Cancelled))
    if step.limit.overrun() > (BLOCKED if given_up else 0.0):
        log.warning(
            "%s blocked its event loop for longer than its timeout of %g s, so it could not be "
            "timed out; make it await, or write it as a plain function.",
            step.owner,
            step.limit.timeout,
        )


async def _kept(work: Any) -> Any:
    try:
        return await work
    except asyncio.CancelledError as error:
        return error
    except BaseException as error:  # noqa: BLE001 - returned in its place
        return error
