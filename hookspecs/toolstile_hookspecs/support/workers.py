"""Worker threads for functions that block, so that an event loop goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]
MAX_IDLE = 32


class Workers:
    """Daemon threads that run sync functions, reused, and never waited for at exit.

    There is no upper bound, with which handlers that never end would starve all others.
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
        """Let the waiting threads end, and the busy ones after what they do; waits for none."""
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
