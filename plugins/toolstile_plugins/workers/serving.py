"""A worker's loop: it takes calls, has them run, and says that it lives."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final
from uuid import uuid4

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.dispatcher import (
    CallRunner,
    DispatchedCall,
)
from toolstile_hookspecs.services.start_marks import run_once
from toolstile_plugins.workers.outcomes import until_recorded
from toolstile_plugins.workers.queue_file import BEATS, CallQueue

log = logging.getLogger("toolstile.workers")

SHORTEST: Final = 0.001
LONGEST: Final = 0.02
"""Seconds between two looks at the file."""
LATE: Final = "Its deadline passed while it ran."


class Serving:
    """Runs the calls of one worker.

    Args:
        queue: The calls.
        runner: Runs the handlers.
        concurrency: How many calls run at once.
    """

    def __init__(self, queue: CallQueue, runner: CallRunner, concurrency: int) -> None:
        self._queue = queue
        self._runner = runner
        self._concurrency = concurrency
        self._worker = uuid4().hex
        self._running: dict[threading.Thread, DispatchedCall] = {}
        self._changed = threading.Condition()

    def run(self, stop: threading.Event) -> None:
        """Run calls until `stop` is set and those that run have ended."""
        # A file that cannot be used from the beginning is told, rather than tried again.
        self._queue.beat(self._worker, self._runner.tools)
        due, pause, version = 0.0, SHORTEST, -1
        while not (stop.is_set() and not self._running):
            try:
                if time.monotonic() >= due:
                    self._queue.beat(self._worker, self._runner.tools)
                    due = time.monotonic() + self._queue.lease / BEATS
                self._end_late()
                before, version = version, self._queue.version()
                if version != before:
                    pause = SHORTEST
                    self._end_cancelled()
                    if not stop.is_set():
                        self._take()
            except StateError:
                log.exception("A worker cannot reach its calls, and tries again.")
                pause, version = 1.0, -1
            with self._changed:
                self._changed.wait(pause)
            pause = min(pause * 1.5, LONGEST)
        self._queue.leave(self._worker)

    def _take(self) -> None:
        room = self._concurrency - len(self._running)
        if room <= 0:
            return
        with self._changed:
            running = {call.key for call in self._running.values()}
            for call in self._queue.take(self._worker, self._runner.tools, room):
                # A worker that was taken for dead goes on with what it runs, and has it again.
                if call.key not in running:
                    thread = threading.Thread(target=self._attend, args=(call,), daemon=True)
                    self._running[thread] = call
                    thread.start()

    def _attend(self, call: DispatchedCall) -> None:
        """Run a call, and forget it once its outcome is recorded."""
        forget = partial(self._queue.drop, self._worker, call.key)
        try:
            run_once(self._queue.marks, call, self._runner)
        except Exception:
            log.exception("A call of %s was lost.", call.tool)
            # So it goes to another worker, or is unknown.
            forget = partial(self._queue.release, call.key)
        until_recorded(lambda: self._leave(forget))

    def _leave(self, forget: Callable[[], None]) -> None:
        # Taken again in between, it would be nobody's.
        with self._changed:
            forget()
            del self._running[threading.current_thread()]
            self._changed.notify()

    def _end_cancelled(self) -> None:
        for key, reason in self._queue.to_end(self._worker) if self._running else ():
            self._runner.end(key, reason)

    def _end_late(self) -> None:
        now = datetime.now(UTC)
        for call in list(self._running.values()):
            if call.deadline is not None and call.deadline <= now:
                self._runner.end(call.key, LATE)
