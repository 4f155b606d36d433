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
        """Return a task whose work has begun, and has ended if it never waited.

        Args:
            loop: The loop that is running.
            work: What the task does; its first step is taken before this returns.
        """
        return asyncio.Task(work, loop=loop, eager_start=True)
else:
    # 3.11 gets no more than security fixes, so that what is borrowed here stays as it is.
    _Task: Any = getattr(asyncio.tasks, "_PyTask")  # noqa: B009 - of no stub
    _Future: Any = getattr(asyncio.futures, "_PyFuture")  # noqa: B009 - of no stub
    _FINISHED: Any = getattr(asyncio.futures, "_FINISHED")  # noqa: B009 - of no stub
    _tasks: Any = asyncio.tasks

    class _EagerTask(_Task):  # type: ignore[misc]
        """A task that takes its first step when it is made, as tasks can from 3.12 on."""

        def __init__(
            self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, object]
        ) -> None:
            # What `_PyTask` does, but for having the loop take the first step soon.
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
            # One that has ended well has nothing to tell.
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
        """Return a task whose work has begun, and has ended if it never waited.

        Args:
            loop: The loop that is running.
            work: What the task does; its first step is taken before this returns.
        """
        task: asyncio.Task[T] = _EagerTask(loop, work)
        return task
