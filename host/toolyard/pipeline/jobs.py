"""A function at work elsewhere: on a worker thread or on the background loop.

One compare-and-set decides whether it finished or was abandoned; whoever comes second
has lost.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from toolyard.pipeline.background import Background, guarded
from toolyard.pipeline.steps import Run
from toolyard.pipeline.workers import Workers


class Job:
    """A step at work elsewhere.

    Args:
        step: What to run.
        notify: Called once it has finished, on the thread that ran it.
    """

    __slots__ = ("_claim", "_notify", "_task", "error", "finished", "step", "value")

    def __init__(self, step: Run, notify: Callable[[], None]) -> None:
        self.step = step
        self.finished = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._claim = threading.Lock()
        self._notify = notify
        self._task: asyncio.Task[None] | None = None

    def start(self, workers: Workers, background: Background) -> None:
        """Begin, with the context variables of the caller."""
        context = contextvars.copy_context()
        if self.step.is_async:
            background.loop.call_soon_threadsafe(self._begin_task, context)
        else:
            workers.submit(lambda: context.run(self._work))

    def start_task(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin an async step on the running loop."""
        self._task = loop.create_task(self._awaited())

    def answer(self) -> Any:
        """Return what the finished job gave, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self.value

    def give_up(self, reason: str) -> bool:
        """Abandon the job unless it has finished; tell which."""
        if not self._claim.acquire(blocking=False):
            return False
        self.step.owner.abandon(reason)
        if self._task is not None:
            loop = self._task.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._task.cancel)
        return True

    def _work(self) -> None:
        try:
            self.value = self.step.function()
        except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
            self.error = error
        self._finish()

    def _begin_task(self, context: contextvars.Context) -> None:
        if self._claim.locked():
            self.step.owner.ended_late()
            return
        self._task = asyncio.get_running_loop().create_task(self._awaited(), context=context)

    async def _awaited(self) -> None:
        self.value, self.error = await guarded(self.step.function())
        self._finish()

    def _finish(self) -> None:
        if self._claim.acquire(blocking=False):
            self.finished = True
            self._notify()
        else:
            self.step.owner.ended_late()
