"""Daemon threads that run sync handlers, reused, and never waited for at exit."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from typing import Final

Task = Callable[[], None]
MAX_IDLE = 32


class Workers:
    """Hands a task to a waiting thread, or to a new one; there is no upper bound.

    A bound would let handlers that never end starve all others.
    """

    __slots__ = ("_idle", "_most_idle", "_name")

    def __init__(self, name: str = "toolstile") -> None:
        self._idle: list[SimpleQueue[Task | None]] = []
        self._most_idle = MAX_IDLE
        self._name = name

    def submit(self, task: Task) -> None:
        """Run a task, which must not raise, on a thread of its own."""
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


# --- A short spin before a thread sleeps


BRIEF: Final = 50e-6
"""Seconds: what takes longer is not worth a look-out."""
MOMENT: Final = 100e-6
"""Seconds: how long to look out, with the time that the other thread takes to wake up."""

# It lets other threads run, those that wait for the interpreter among them. Windows has none.
_let_others_run: Callable[[], None] | None = getattr(os, "sched_yield", None)


class HandlerTiming:
    """The time that a tool's handler took lately on a worker thread.

    Attributes:
        seconds: What it took the last time, without the way to its thread and back.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = math.inf

    @property
    def is_brief(self) -> bool:
        """True when the handler probably ends before a waiting thread could wake."""
        return self.seconds < BRIEF


def spin_until(ended: Callable[[], bool]) -> bool:
    """Look for the end of something for a moment, without sleeping.

    Args:
        ended: Tells whether it has ended.

    Returns:
        Whether it has.
    """
    if _let_others_run is None:
        return ended()
    until = perf_counter() + MOMENT
    while not ended():
        if perf_counter() > until:
            return False
        _let_others_run()
    return True
