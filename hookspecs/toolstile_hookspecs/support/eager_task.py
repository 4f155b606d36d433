"""Eager tasks: they take their first step when they are made."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

if sys.version_info >= (3, 12):

    def begin(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Return a task on the running loop that has taken its first step, or ended at once."""
        return asyncio.Task(work, loop=loop, eager_start=True)
else:
    # These private names stay, because 3.11 gets security fixes only.
    _Task: Any = getattr(asyncio.tasks, "_PyTask")  # noqa: B009 - of no stub
    _Future: Any = getattr(asyncio.futures, "_PyFuture")  # noqa: B009 - of no stub
    _FINISHED: Any = getattr(asyncio.futures, "_FINISHED")  # noqa: B009 - of no stub
    _tasks: Any = asyncio.tasks

    class _EagerTask(_Task):  # type: ignore[misc]
        """A task that takes its first step when it is made, as tasks can from 3.12 on."""

        def __init__(
            self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, object]
        ) -> None:
            # As `_PyTask` does, except that the first step is taken now, not soon by the loop.
            if loop.get_debug():
                _Future.__init__(self, loop=loop)
            else:
                self._loop = loop
                self._callbacks: list[Any] = []
            self._name = "toolstile"
            self._num_cancels_requested = 0
            self._must_cancel = False
            self._fut_waiter = None
            self._coro = work
            self._context = contextvars.copy_context()
            self._begin(loop)
            if not self.done():
                _tasks._register_task(self)  # noqa: SLF001 - documented for extending

        def __del__(self) -> None:
            # A task that has succeeded has nothing to report.
            if self._state != _FINISHED or self._exception is not None:
                _Task.__del__(self)

        def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
            caller = asyncio.current_task(loop)
            if caller is None:
                self._context.run(self._Task__step)
                return
            _tasks._leave_task(loop, caller)  # noqa: SLF001 - documented for extending
            try:
                self._context.run(self._Task__step)
            finally:
                _tasks._enter_task(loop, caller)  # noqa: SLF001 - documented for extending

    def begin(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Return a task on the running loop that has taken its first step, or ended at once."""
        task: asyncio.Task[T] = _EagerTask(loop, work)
        return task
