"""Carries out pipelines on the calling thread: one, or several side by side."""

from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from inspect import GEN_CREATED, GEN_SUSPENDED, getgeneratorstate
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from toolstile.drivers.background_loop import Background
from toolstile.drivers.job import Job, Step, WaitFor
from toolstile.drivers.limit import INTERRUPTED, LOOK
from toolstile.resources.exclusive import CURRENT
from toolstile_hookspecs.support.event_loop import Workers

T = TypeVar("T")
Pipeline = Generator[Step, Any, T]


class SyncDriver:
    """Runs pipelines without an event loop of the caller's, async functions on `background`."""

    __slots__ = ("_background", "_workers")

    def __init__(self, workers: Workers, background: Background) -> None:
        self._workers = workers
        self._background = background

    def drive(self, pipeline: Pipeline[T]) -> T:
        try:
            step = next(pipeline)
            while True:
                try:
                    answer = self._perform(step)
                except BaseException as error:  # noqa: BLE001 - the pipeline decides
                    step = pipeline.throw(error)
                else:
                    step = pipeline.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            pipeline.close()

    def drive_all(
        self, pipelines: Sequence[Pipeline[T]], ended: Callable[[int], None]
    ) -> list[T | BaseException]:
        """Run several side by side to their ends; an exception stands in its place.

        `ended` is called with the place of each that has ended, also before its first step. An
        interruption of the calling thread is raised when all have ended.
        """
        return _Batch(pipelines, self._start, ended).run()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, WaitFor):
            if step.waitable.granted:
                return None
        elif step.inline and not step.is_async:
            return step.function()
        # Not an event: a signal handler can ring this one, too.
        bell: SimpleQueue[None] = SimpleQueue()
        job = Job(step, partial(bell.put, None))
        try:
            job.start(self._workers, self._background)
            job.spin()
            while not job.finished:
                _listen(bell, step.limit.remaining(LOOK))
                job.check_limit(CURRENT.get())
        except BaseException:
            try:
                if step.uninterruptible:
                    self._start(job)
                    while not job.finished:
                        bell.get()
                    job.answer()
            finally:
                # A second interruption also ends a step that must be completed.
                job.give_up(INTERRUPTED)
            raise
        return job.answer()

    def _start(self, job: Job) -> None:
        job.start(self._workers, self._background)


class _Batch:
    """Several pipelines on one thread, each in a separate context."""

    def __init__(
        self,
        pipelines: Sequence[Pipeline[Any]],
        start: Callable[[Job], None],
        ended: Callable[[int], None],
    ) -> None:
        self._pipelines = pipelines
        self._start = start
        self._ended = ended
        self._contexts = [contextvars.copy_context() for _ in pipelines]
        self._results: list[Any] = [None] * len(pipelines)
        self._jobs: dict[int, Job] = {}
        self._inbox: SimpleQueue[int] = SimpleQueue()
        # No limit is over before; pausing one only puts it off.
        self._next_end = math.inf
        self._interrupt: BaseException | None = None

    def run(self) -> list[Any]:
        try:
            self._attempt(self._start_all)
            while self._jobs:
                self._attempt(self._go_on)
        finally:
            for pipeline, context in zip(self._pipelines, self._contexts, strict=True):
                context.run(pipeline.close)
        if self._interrupt is not None:
            raise self._interrupt
        return self._results

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - each pipeline has to roll back first
            self._interrupt_all(error)

    def _start_all(self) -> None:
        for index in range(len(self._pipelines)):
            self._advance(index, None, None)

    def _go_on(self) -> None:
        while self._jobs:
            seconds = min(max(self._next_end - monotonic(), 0.0), LOOK)
            woken = _listen(self._inbox, seconds)
            if woken is not None:
                self._look(woken)
                continue
            self._next_end = math.inf
            for index in list(self._jobs):
                self._look(index)

    def _look(self, index: int) -> None:
        if (job := self._jobs.get(index)) is None:
            return
        if not job.finished:
            job.check_limit(self._contexts[index].get(CURRENT))
        if not job.finished:
            self._note_end(job)
            return
        del self._jobs[index]
        try:
            answer = job.answer()
        except BaseException as error:  # noqa: BLE001 - the pipeline decides
            self._advance(index, None, error)
        else:
            self._advance(index, answer, None)

    def _note_end(self, job: Job) -> None:
        remaining = job.step.limit.remaining()
        if remaining is not None:
            self._next_end = min(self._next_end, monotonic() + remaining)

    def _advance(self, index: int, answer: Any, error: BaseException | None) -> None:
        self._contexts[index].run(self._resume, index, answer, error)

    def _resume(self, index: int, answer: Any, error: BaseException | None) -> None:
        pipeline = self._pipelines[index]
        while True:
            try:
                step = pipeline.send(answer) if error is None else pipeline.throw(error)
            except StopIteration as stop:
                self._results[index] = stop.value
                self._ended(index)
                return
            except BaseException as raised:
                if getgeneratorstate(pipeline) == GEN_SUSPENDED:
                    # It has not ended: an interruption lost its request.
                    raise
                self._results[index] = raised
                self._ended(index)
                return
            if not (isinstance(step, WaitFor) and step.waitable.granted):
                break
            answer, error = None, None
        job = self._jobs[index] = Job(step, partial(self._inbox.put, index))
        self._start(job)
        self._note_end(job)

    def _interrupt_all(self, error: BaseException) -> None:
        self._interrupt = self._interrupt or error
        between = [
            index
            for index, pipeline in enumerate(self._pipelines)
            if index not in self._jobs and getgeneratorstate(pipeline) == GEN_SUSPENDED
        ]
        for index in between:
            self._advance(index, None, error)
        for index, pipeline in enumerate(self._pipelines):
            if getgeneratorstate(pipeline) == GEN_CREATED:
                pipeline.close()
                self._ended(index)
        for index, job in list(self._jobs.items()):
            if job.step.uninterruptible:
                self._start(job)
                # It may have ended, and the interruption have come when that was just heard.
                self._inbox.put(index)
                continue
            job.give_up(INTERRUPTED)
            del self._jobs[index]
            self._advance(index, None, error)


def _listen(bell: SimpleQueue[T], seconds: float | None) -> T | None:
    """Wait for a message, at most for some time; return None where none has come."""
    try:
        return bell.get(timeout=seconds)
    except Empty:
        return None
