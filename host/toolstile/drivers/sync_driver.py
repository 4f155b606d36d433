"""Carries out pipelines on the calling thread: one, or several side by side."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from heapq import heappop, heappush
from inspect import GEN_CREATED, GEN_SUSPENDED, getgeneratorstate
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from toolstile.drivers.background_loop import Background
from toolstile.drivers.commands import Run, Step, WaitFor, raised
from toolstile.drivers.job import Job
from toolstile.drivers.limit import INTERRUPTED, Limit, why_given_up
from toolstile.drivers.threads import Workers, spin_until

T = TypeVar("T")
Pipeline = Generator[Step, Any, T]


class SyncDriver:
    """Runs pipelines without an event loop of the caller's.

    Args:
        workers: Runs sync functions that can be given up.
        background: Runs async ones.
    """

    __slots__ = ("_background", "_workers")

    def __init__(self, workers: Workers, background: Background) -> None:
        self._workers = workers
        self._background = background

    def drive(self, pipeline: Pipeline[T]) -> T:
        """Run one pipeline to its end and return what it returns."""
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
        """Run several to their ends, side by side; an exception stands in its place.

        Args:
            pipelines: The pipelines.
            ended: Called with the place of each that has ended, also before its first step.

        Raises:
            BaseException: What interrupts the calling thread itself, when all have ended.
        """
        return _Batch(pipelines, self._begin, ended).run()

    def _perform(self, step: Step) -> Any:
        if isinstance(step, WaitFor):
            if step.waitable.granted:
                return None
        elif step.inline and not step.is_async:
            try:
                return step.function()
            except GeneratorExit as error:
                raise raised(error) from error.__cause__
        wake = threading.Lock()
        wake.acquire()
        pending = _Pending(step, lambda: _release(wake))
        try:
            self._begin(pending)
            if isinstance(step, Run) and step.is_brief:
                spin_until(pending.ended)
            while not pending.ended():
                remaining = step.limit.remaining()
                wake.acquire(timeout=-1 if remaining is None else remaining)
                pending.raise_fault()
        except BaseException:
            if pending.uninterruptible:
                self._begin(pending)
                _see_through(pending, wake)
                pending.answer()
            else:
                pending.give_up(INTERRUPTED)
            raise
        finally:
            pending.forget()
        return pending.answer()

    def _begin(self, pending: _Pending) -> None:
        pending.begin(self._workers, self._background)


class _Pending:
    """A step that has not been answered; made before it begins, so that none gets lost.

    Args:
        step: The step.
        wake: Called when it may have ended.
    """

    __slots__ = ("_forget", "_wake", "job", "step")

    def __init__(self, step: Step, wake: Callable[[], None]) -> None:
        self.step = step
        self.job = Job(step) if isinstance(step, Run) else None
        self._wake = wake
        self._forget: Callable[[], None] | None = None

    @property
    def uninterruptible(self) -> bool:
        """True when an interruption has to wait until it has ended."""
        return isinstance(self.step, Run) and self.step.uninterruptible

    def begin(self, workers: Workers, background: Background) -> None:
        cancellation = self.step.limit.cancellation
        if cancellation is not None:
            self._forget = cancellation.on_cancel(self._wake)
        if self.job is not None:
            self.job.start(workers, background)
            self.job.when_finished(self._wake)
        elif isinstance(self.step, WaitFor):
            self.step.waitable.on_grant(self._wake)

    def ended(self) -> bool:
        return self.job.finished if self.job is not None else self._granted()

    def raise_fault(self) -> None:
        """Raise why the step is over before it ended, if it is and the job can be given up."""
        if self.ended() or (fault := self.limit.fault()) is None:
            return
        if self.give_up(why_given_up(fault)):
            raise fault

    def give_up(self, reason: str) -> bool:
        return self.job.give_up(reason) if self.job is not None else True

    def forget(self) -> None:
        if self._forget is not None:
            self._forget()

    def answer(self) -> Any:
        if self.job is not None:
            return self.job.answer()
        # What it waited for may have been another call with the same deadline.
        self.limit.check()
        return None

    @property
    def limit(self) -> Limit:
        return self.step.limit

    def _granted(self) -> bool:
        return isinstance(self.step, WaitFor) and self.step.waitable.granted


class _Batch:
    """Several pipelines on one thread, each in a context of its own."""

    def __init__(
        self,
        pipelines: Sequence[Pipeline[Any]],
        begin: Callable[[_Pending], None],
        ended: Callable[[int], None],
    ) -> None:
        self._pipelines = pipelines
        self._begin = begin
        self._ended = ended
        self._contexts = [contextvars.copy_context() for _ in pipelines]
        self._results: list[Any] = [None] * len(pipelines)
        self._pending: dict[int, _Pending] = {}
        self._inbox: SimpleQueue[int] = SimpleQueue()
        self._alarms = _Alarms()
        self._interrupt: BaseException | None = None

    def run(self) -> list[Any]:
        try:
            self._attempt(self._start_all)
            while self._pending:
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
        while self._pending:
            self._look(self._next_to_look_at())

    def _next_to_look_at(self) -> int | None:
        """Wait until a pipeline is woken, or the limit of one may have passed."""
        try:
            return self._inbox.get(timeout=self._alarms.remaining(self._pending))
        except Empty:
            return self._alarms.pop()

    def _look(self, index: int | None) -> None:
        pending = None if index is None else self._pending.get(index)
        if index is None or pending is None:
            return
        if pending.ended():
            self._answer(index, pending)
            return
        try:
            pending.raise_fault()
        except Exception as fault:  # noqa: BLE001 - the pipeline decides
            del self._pending[index]
            pending.forget()
            self._advance(index, None, fault)
        else:
            self._alarms.set(index, pending)

    def _answer(self, index: int, pending: _Pending) -> None:
        del self._pending[index]
        pending.forget()
        try:
            answer = pending.answer()
        except BaseException as error:  # noqa: BLE001 - the pipeline decides
            self._advance(index, None, error)
        else:
            self._advance(index, answer, None)

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
                    # It has not ended: what it asks for got lost in an interruption.
                    raise
                self._results[index] = raised
                self._ended(index)
                return
            if isinstance(step, Run) and step.inline and not step.is_async:
                step.inline = False
            if isinstance(step, WaitFor) and step.waitable.granted:
                answer, error = None, None
                continue
            pending = self._pending[index] = _Pending(step, lambda: self._inbox.put(index))
            self._begin(pending)
            self._alarms.set(index, pending)
            return

    def _interrupt_all(self, error: BaseException) -> None:
        self._interrupt = self._interrupt or error
        between = [
            index
            for index, pipeline in enumerate(self._pipelines)
            if index not in self._pending and getgeneratorstate(pipeline) == GEN_SUSPENDED
        ]
        for index in between:
            self._advance(index, None, error)
        for index, pipeline in enumerate(self._pipelines):
            if getgeneratorstate(pipeline) == GEN_CREATED:
                pipeline.close()
                self._ended(index)
        for index, pending in list(self._pending.items()):
            if pending.uninterruptible:
                self._begin(pending)
                # It may have ended, and the interruption have come when that was just heard.
                self._inbox.put(index)
                continue
            pending.give_up(INTERRUPTED)
            pending.forget()
            del self._pending[index]
            self._advance(index, None, error)


class _Alarms:
    """When each pending step has to be looked at again, the next one first.

    Pausing a limit only puts it off, so an alarm may ring too early and is then set anew.
    """

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, _Pending]] = []
        self._numbers = count()

    def set(self, index: int, pending: _Pending) -> None:
        remaining = pending.limit.remaining()
        if remaining is not None:
            ring = time.monotonic() + remaining
            heappush(self._heap, (ring, next(self._numbers), index, pending))

    def remaining(self, wanted: Mapping[int, _Pending]) -> float | None:
        """Return the seconds to the next alarm of a step that is still wanted, or None."""
        heap = self._heap
        while heap and wanted.get(heap[0][2]) is not heap[0][3]:
            heappop(heap)
        return max(heap[0][0] - time.monotonic(), 0.0) if heap else None

    def pop(self) -> int | None:
        """Take the next alarm away; return whose it was."""
        return heappop(self._heap)[2] if self._heap else None


def _see_through(pending: _Pending, wake: threading.Lock) -> None:
    """Wait for what must not be left half done; a second interruption ends that, too."""
    try:
        while not pending.ended():
            wake.acquire()
    except BaseException:
        pending.give_up(INTERRUPTED)
        raise


def _release(lock: threading.Lock) -> None:
    try:
        lock.release()
    except RuntimeError:
        return
