"""Carries out pipelines on the caller's event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from toolstile.drivers.job import Job, OwnTask, Run, Step, WaitFor
from toolstile.drivers.limit import CALLER_CANCELLED, INTERRUPTED, LOOK, Cancelled, TimedOut
from toolstile.drivers.sync_driver import Pipeline
from toolstile.resources.exclusive import CURRENT
from toolstile_hookspecs import DeadlineExceededError
from toolstile_hookspecs.support.eager_task import begin
from toolstile_hookspecs.support.event_loop import Workers, is_on_loop

T = TypeVar("T")
log = logging.getLogger("toolstile.pipeline")
# A busy loop may notice an ended step a little late.
BLOCKED = 0.1


class AsyncDriver:
    """Runs pipelines on the loop of the task that awaits them; asyncio only.

    The `workers` run sync functions without blocking the loop.
    """

    __slots__ = ("_workers",)

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def drive(self, pipeline: Pipeline[T]) -> T:
        try:
            step = next(pipeline)
            while True:
                try:
                    if (
                        isinstance(step, Run)
                        and step.inline
                        and step.is_async
                        and step.limit.endless
                    ):
                        answer = await step.function()
                    else:
                        answer = await self.attend(step)
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

        `ended` is called with the place of each that has ended, also before its first step.
        """
        loop = asyncio.get_running_loop()
        tasks = [begin(loop, self._outcome(pipeline)) for pipeline in pipelines]
        for index, task in enumerate(tasks):
            task.add_done_callback(lambda _, index=index: ended(index))  # type: ignore[misc]
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    async def _outcome(self, pipeline: Pipeline[T]) -> T | BaseException:
        try:
            return await self.drive(pipeline)
        except BaseException as error:  # noqa: BLE001 - returned in its place
            return error

    async def attend(self, step: Step) -> Any:
        """Carry a step out, and give it up when its limit says so, or its caller is cancelled.

        It is not waited for then: a handler that ignores its cancellation, or whose cleanup
        hangs, delays no other call.
        """
        if isinstance(step, WaitFor) and step.waitable.granted:
            return None
        bell = _Bell(asyncio.get_running_loop())
        here = step if isinstance(step, Run) and step.is_async else None
        job = Job(step, bell.ring) if here is None else OwnTask(here, bell.ring, bell.ring_here)
        try:
            job.start(self._workers, None)
            if here is None:
                job.spin()
            while not job.finished:
                await bell.wait(step.limit.remaining(LOOK))
                job.check_limit(CURRENT.get())
        except GeneratorExit:
            # The loop has gone, and with it the thread that all of this has to happen on.
            if here is None and step.uninterruptible:
                job.join()
            raise
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            try:
                if step.uninterruptible:
                    while not job.finished:
                        # A task ends by a second one; nothing ends a thread.
                        with suppress(*([] if here else [asyncio.CancelledError])):
                            await bell.wait(None)
                    job.answer()
            finally:
                # A second interruption also ends a step that must be completed.
                job.give_up(CALLER_CANCELLED if is_cancelled else INTERRUPTED)
            raise
        if here is not None and (overrun := step.limit.overrun()) > 0.0:
            _warn_if_blocked(here, overrun, job.error)
        return job.answer()


class _Bell:
    """Wakes one coroutine, from its loop or from another thread."""

    __slots__ = ("_future", "_loop", "_rung")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None
        self._rung = False

    def ring_here(self) -> None:
        self._rung = True
        if self._future is not None and not self._future.done():
            # A signal handler may have rung in between.
            with suppress(asyncio.InvalidStateError):
                self._future.set_result(None)

    def ring(self) -> None:
        try:
            # In a signal handler that runs between two tasks, the loop has to be woken.
            if is_on_loop() and asyncio.current_task() and self._loop is asyncio.get_running_loop():
                self.ring_here()
            else:
                self._loop.call_soon_threadsafe(self.ring_here)
        except RuntimeError:
            log.debug("A job ended after its event loop was closed.")

    async def wait(self, seconds: float | None) -> None:
        # Made first: a signal handler that rings from here on is noticed either way.
        future = self._future = self._loop.create_future()
        if not self._rung:
            timer = None if seconds is None else self._loop.call_later(seconds, self.ring_here)
            try:
                await future
            finally:
                if timer is not None:
                    timer.cancel()
        self._rung = False


def _warn_if_blocked(step: Run, overrun: float, error: BaseException | None) -> None:
    given_up = isinstance(error, (TimedOut, DeadlineExceededError, Cancelled))
    if overrun > (BLOCKED if given_up else 0.0):
        log.warning(
            "%s blocked its event loop for longer than its timeout of %g s, so it could not be "
            "timed out; make it await, or write it as a plain function.",
            step.owner,
            step.limit.timeout,
        )
