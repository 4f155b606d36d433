"""Waiting without a thread lock: gates that open once, and turns that are taken in order."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Gate:
    """Something to wait for that happens once.

    Opened from any thread; whoever waits is told through a callback, so that a thread
    and an event loop can both wait for it.
    """

    __slots__ = ("_callbacks", "_lock", "granted")

    def __init__(self) -> None:
        self.granted = False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def open(self) -> None:
        """Let everyone through, now and later; interrupted, it is done again."""
        with self._lock:
            self.granted = True
        # None comes any more.
        for callback in self._callbacks:
            callback()
        self._callbacks = []

    def on_grant(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the gate is open, at once if it is."""
        with self._lock:
            if not self.granted:
                self._callbacks.append(callback)
                return
        callback()


class Turns:
    """A queue in which one holder at a time has the turn, first come, first served."""

    __slots__ = ("_holder", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: object | None = None
        self._waiting: deque[tuple[object, Gate]] = deque()

    def take(self, holder: object) -> Gate | None:
        """Take the turn for `holder`, or return the gate that opens when it is its turn."""
        with self._lock:
            if self._holder is None:
                self._holder = holder
                return None
            gate = Gate()
            self._waiting.append((holder, gate))
            return gate

    def take_free(self, holder: object) -> bool:
        """Take the turn for `holder` if it is nobody's; tell whether."""
        with self._lock:
            if self._holder is not None:
                return False
            self._holder = holder
            return True

    @property
    def holder(self) -> object | None:
        """Who has the turn."""
        return self._holder

    def give_back(self, holder: object) -> None:
        """End the holder's turn, or take it out of the queue; interrupted, it is done again."""
        with self._lock:
            if self._holder is not holder:
                self._leave_queue(holder)
                return
            if not self._waiting:
                self._holder = None
                return
            # Told before it is so: an interruption may come between the two.
            follows, gate = self._waiting[0]
            gate.open()
            self._holder = follows
            self._waiting.popleft()

    def _leave_queue(self, holder: object) -> None:
        self._waiting = deque(each for each in self._waiting if each[0] is not holder)
