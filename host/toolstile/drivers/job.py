"""A function at work elsewhere: on a worker thread or on the background loop.

One compare-and-set decides whether it finished or was abandoned; whoever comes second
has lost.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from toolstile.drivers.background_loop import Background, guarded
from toolstile.drivers.commands import Run, raised
from toolstile.drivers.threads import Workers
from toolstile_hookspecs import StateError
from toolstile_hookspecs.support.process import renewed_in_forks

log = logging.getLogger("toolstile.pipeline")
BLOCKED = 0.05
_WAITS_FOR_ITSELF = (
    "it is async, and was dispatched from the event loop that has to run it, which would wait "
    "for itself; write: await executor.adispatch(call)"
)
# Held for moments: whoever ends late waits until whoever gave up has told the owner so.
_giving_up = renewed_in_forks(__name__, "_giving_up", threading.Lock)


class Job:
    """A step at work elsewhere.

    Args:
        step: What to run.

    Attributes:
        finished: Whether it has ended, and was not given up before.
        value: What it gave then.
        error: What it raised then.
    """

    __slots__ = (
        "_beginning",
        "_claim",
        "_loop",
        "_notify",
        "_task",
        "error",
        "finished",
        "step",
        "value",
    )

    def __init__(self, step: Run) -> None:
        self.step = step
        self.finished = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._claim = threading.Lock()
        # Taken by whoever comes first: what begins it, or gives it up before.
        self._beginning = threading.Lock()
        self._notify: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, workers: Workers, background: Background) -> None:
        """Begin, with the context variables of the caller; what cannot begin has failed.

        An async step may be begun once more where an interruption leaves open whether it was.
        """
        context = contextvars.copy_context()
        try:
            if self.step.is_async:
                self._begin_on(background, context)
            else:
                workers.submit(partial(context.run, self._work))
        except Exception as error:  # noqa: BLE001 - raised where the call was dispatched
            self.error = error
            self._finish()

    def when_finished(self, notify: Callable[[], None]) -> None:
        """Have this called once it has finished, on its thread; at once, if it has.

        It may be called twice, where it finishes at this very moment.
        """
        self._notify = notify
        if self.finished:
            notify()

    def answer(self) -> Any:
        """Return what the finished job gave, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self.value

    def give_up(self, reason: str) -> bool:
        """Abandon the job unless it has finished; tell which."""
        with _giving_up:
            if not self._claim.acquire(blocking=False):
                return False
            self.step.owner.abandon(reason)
        if self._beginning.acquire(blocking=False):
            # It never begins, so that nobody else would tell that it has ended.
            self.step.owner.ended_late()
            return True
        if self._loop is not None:
            # A loop that is closed runs nothing any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel, time.monotonic())
        return True

    def _cancel(self, given_up: float) -> None:
        if self._task is not None and self._loop is not None:
            # One turn later: what is cancelled before it begins would never tell that it has ended.
            self._loop.call_soon(self._task.cancel)
        blocked = time.monotonic() - given_up
        if blocked > BLOCKED:
            log.warning(
                "The event loop of %s was blocked for another %.1f s after it was given up; "
                "make it await, or write it as a plain function.",
                self.step.owner,
                blocked,
            )

    def _end_late(self) -> None:
        with _giving_up:
            pass
        self.step.owner.ended_late()

    def _work(self) -> None:
        if not self._beginning.acquire(blocking=False):
            return
        step = self.step
        started = time.perf_counter()
        try:
            self.value = step.function()
        except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
            self.error = raised(error)
        if step.pace is not None:
            step.pace.seconds = time.perf_counter() - started
        self._finish()

    def _begin_on(self, background: Background, context: contextvars.Context) -> None:
        if background.is_here:
            raise StateError(_WAITS_FOR_ITSELF)
        self._loop = background.loop
        self._loop.call_soon_threadsafe(self._begin_task, context)

    def _begin_task(self, context: contextvars.Context) -> None:
        if not self._beginning.acquire(blocking=False):
            return
        self._task = asyncio.get_running_loop().create_task(self._awaited(), context=context)

    async def _awaited(self) -> None:
        step = self.step
        self.value, self.error = await guarded(step.function())
        self._finish()

    def _finish(self) -> None:
        if self._claim.acquire(blocking=False):
            self.finished = True
            if self._notify is not None:
                self._notify()
        else:
            self._end_late()
