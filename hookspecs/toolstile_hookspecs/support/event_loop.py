"""Event loops: whether the caller runs on one, and worker threads for functions that block."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from toolstile_hookspecs.support.process import renewed_in_forks


def is_on_loop() -> bool:
    """Tell whether the caller runs on an event loop."""
    # Without the module no loop runs, and importing it takes long.
    asyncio = sys.modules.get("asyncio")
    # The public function raises without a loop, which takes ten times as long.
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 - see above


T = TypeVar("T")
Task = Callable[[], None]
MAX_IDLE = 32


class Workers:
    """Daemon threads that run sync functions; they are reused, and do not delay the exit.

    Their number has no limit, because handlers that never end would then starve all others.
    """

    __slots__ = ("_idle", "_most_idle", "_name")

    def __init__(self, name: str = "toolstile") -> None:
        self._idle: list[SimpleQueue[Task | None]] = []
        self._most_idle = MAX_IDLE
        self._name = name

    def submit(self, task: Task) -> None:
        """Run a task, which must not raise, on a waiting thread or on a new one."""
        inbox: SimpleQueue[Task | None]
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(
                target=self._work, args=(inbox,), name=f"{self._name}-worker", daemon=True
            ).start()
        inbox.put(task)

    def close(self) -> None:
        """Let the idle threads end, and the busy ones after their task; does not wait."""
        self._most_idle = 0
        while self._idle:
            self._idle.pop().put(None)

    def _work(self, inbox: SimpleQueue[Task | None]) -> None:
        while (task := inbox.get()) is not None:
            task()
            del task
            if len(self._idle) >= self._most_idle:
                return
            self._idle.append(inbox)


_workers: Workers = renewed_in_forks(__name__, "_workers", Workers)


async def off_loop(function: Callable[[], T]) -> T:
    """Return the result of a function, called on a worker with the caller's context variables.

    Unlike with `asyncio.to_thread`, the number of workers has no limit, because calls that wait
    for one disk share a commit only if all can wait at once.
    """
    import asyncio  # late, because commands without calls need none

    future: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(context.run(function))
            except BaseException as error:  # noqa: BLE001 - raised by the future
                future.set_exception(error)

    _workers.submit(work)
    return await asyncio.wrap_future(future)
