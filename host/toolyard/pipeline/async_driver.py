"""Carries out pipelines on the caller's event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from toolyard.pipeline.background import Background
from toolyard.pipeline.jobs import Job
from toolyard.pipeline.steps import Run, Step, WaitFor
from toolyard.pipeline.sync_driver import Pipeline
from toolyard.pipeline.workers import Workers

T = TypeVar("T")
log = logging.getLogger("toolyard.pipeline")


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

    async def drive_all(self, pipelines: Sequence[Pipeline[T]]) -> list[T | BaseException]:
        """Run several to their ends, side by side; an exception stands in its place."""
        tasks = [asyncio.ensure_future(_kept(self.drive(each))) for each in pipelines]
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
        return [task.result() for task in tasks]

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, WaitFor):
            if not step.waitable.granted:
                await self._wait(step, None)
            return None
        if step.is_async and step.limit.endless:
            return await step.function()
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop)
        job = Job(step, waiter.wake if step.is_async else waiter.wake_from_thread)
        if step.is_async:
            started = time.monotonic()
            job.start_task(loop)
            await self._wait(step, job, waiter)
            _warn_if_blocked(step, started)
        else:
            job.start(self._workers, self._background)
            await self._wait(step, job, waiter)
        return job.answer()

    async def _wait(self, step: Step, job: Job | None, waiter: _Waiter | None = None) -> None:
        if waiter is None:
            waiter = _Waiter(asyncio.get_running_loop())
        forget: Callable[[], None] | None = None
        if step.limit.cancellation is not None:
            forget = step.limit.cancellation.on_cancel(waiter.wake_from_thread)
        if isinstance(step, WaitFor):
            step.waitable.on_grant(waiter.wake_from_thread)
        try:
            while not _ended(step, job):
                await waiter.wait(step.limit.remaining())
                fault = None if _ended(step, job) else step.limit.fault()
                if fault is not None and (job is None or job.give_up(str(fault))):
                    raise fault
        except asyncio.CancelledError:
            if job is not None:
                job.give_up("its caller was cancelled")
            raise
        finally:
            waiter.close()
            if forget is not None:
                forget()


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


def _ended(step: Step, job: Job | None) -> bool:
    if job is not None:
        return job.finished
    return isinstance(step, WaitFor) and step.waitable.granted


def _warn_if_blocked(step: Run, started: float) -> None:
    timeout = step.limit.timeout
    if timeout is not None and time.monotonic() - started > timeout:
        log.warning(
            "%s blocked its event loop for longer than its timeout of %g s, so it could not "
            "be timed out; make it await, or write it as a plain function.",
            step.owner,
            timeout,
        )


async def _kept(work: Any) -> Any:
    try:
        return await work
    except asyncio.CancelledError as error:
        return error
    except BaseException as error:  # noqa: BLE001 - returned in its place
        return error
