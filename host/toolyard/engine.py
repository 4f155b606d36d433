"""The machinery that all executors of a host share: threads, the loop, the drivers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from toolyard.pipeline.async_driver import AsyncDriver
from toolyard.pipeline.background import Background
from toolyard.pipeline.gates import Gate, Turns
from toolyard.pipeline.sync_driver import SyncDriver
from toolyard.pipeline.workers import Workers
from toolyard_hookspecs import Tool

if TYPE_CHECKING:
    from toolyard.pipeline.call_run import CallRun


class Engine:
    """Threads, the background loop and the drivers of one host.

    Args:
        interrupts: Exceptions of other frameworks that leave `dispatch` as they are.
    """

    def __init__(self, interrupts: tuple[type[BaseException], ...] = ()) -> None:
        self.interrupts = interrupts
        self.workers = Workers()
        self.background = Background()
        self.sync = SyncDriver(self.workers, self.background)
        self.asynchronous = AsyncDriver(self.workers, self.background)
        self._serial: WeakKeyDictionary[Tool[Any, Any], Turns] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def serial(self, tool: Tool[Any, Any], run: CallRun) -> SerialTicket:
        """Ask for the one place in which calls of a serial tool run."""
        holder = run.root
        with self._lock:
            turns = self._serial.setdefault(tool, Turns())
        return SerialTicket(turns, holder)

    def isolated(self, run: CallRun) -> Callable[..., Any]:
        """Return a handler that runs the tool's own in a process of its own."""
        from toolyard.isolation.parent import IsolatedHandler

        return IsolatedHandler(run)

    def close(self) -> None:
        """Let idle threads end and stop the loop; what never ends is left to the process."""
        self.workers.close()
        self.background.close()


class SerialTicket:
    """A call's place in the queue for a serial tool; re-entrant within a call tree."""

    __slots__ = ("_gate", "_holder", "_nested", "_turns")

    def __init__(self, turns: Turns, holder: object) -> None:
        self._turns = turns
        self._holder = holder
        self._nested = turns.held_by(holder)
        self._gate: Gate | None = None if self._nested else turns.take(holder)

    @property
    def granted(self) -> bool:
        """Whether it is the call's turn."""
        return self._gate is None or self._gate.granted

    def on_grant(self, callback: Callable[[], None]) -> None:
        """Call back once it is the call's turn."""
        if self._gate is None:
            callback()
        else:
            self._gate.on_grant(callback)

    def withdraw(self) -> None:
        """Give the place to the next call."""
        if not self._nested:
            self._turns.give_back(self._holder)
