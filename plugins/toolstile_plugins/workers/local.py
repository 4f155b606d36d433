"""The dispatcher and worker of one machine, which exchange calls in a SQLite file."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Collection
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from toolstile_hookspecs import HostHandle, StateError
from toolstile_hookspecs.services.dispatcher import (
    CallRunner,
    DispatchedCall,
    DispatchOutcome,
    DispatchState,
    outcome_of,
    run_once,
)
from toolstile_plugins.workers.outcomes import until_recorded
from toolstile_plugins.workers.queue_file import BEATS, CallQueue
from toolstile_plugins.workers.settings import WorkersSettings

if TYPE_CHECKING:
    from toolstile_plugins.database.settings import DatabaseSettings

log = logging.getLogger("toolstile.workers")

SHORTEST: Final = 0.001
LONGEST: Final = 0.02
"""Seconds between two reads of the file."""
LATE: Final = "Its deadline passed while it ran."


class Serving:
    """Runs the calls of one worker, at most `concurrency` at once."""

    def __init__(self, queue: CallQueue, runner: CallRunner, concurrency: int) -> None:
        self._queue = queue
        self._runner = runner
        self._concurrency = concurrency
        self._worker = uuid4().hex
        self._running: dict[threading.Thread, DispatchedCall] = {}
        self._changed = threading.Condition()

    def run(self, stop: threading.Event) -> None:
        """Run calls until `stop` is set and the running calls have ended."""
        # Outside of `try`, because a file that is unusable from the start is an error.
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
                    for key, reason in self._queue.to_end(self._worker) if self._running else ():
                        self._runner.end(key, reason)
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
                # A worker that was wrongly declared dead may take a call that it still runs.
                if call.key not in running:
                    thread = threading.Thread(target=self._attend, args=(call,), daemon=True)
                    self._running[thread] = call
                    thread.start()

    def _attend(self, call: DispatchedCall) -> None:
        forget = partial(self._queue.drop, self._worker, call.key)
        try:
            run_once(self._queue.marks, call, self._runner)
        except Exception:
            log.exception("A call of %s was lost.", call.tool)
            # Another worker takes the call, or its outcome is unknown.
            forget = partial(self._queue.release, call.key)

        def leave() -> None:
            # Under the lock, because `_take` would skip a call that is taken again in between.
            with self._changed:
                forget()
                del self._running[threading.current_thread()]
                self._changed.notify()

        until_recorded(leave)

    def _end_late(self) -> None:
        now = datetime.now(UTC)
        for call in list(self._running.values()):
            if call.deadline is not None and call.deadline <= now:
                self._runner.end(call.key, LATE)


CANCELLED: Final = "It was cancelled while it ran."
Waiting = list[Future[DispatchOutcome]]


class LocalDispatcher:
    """Runs calls on workers of this machine, through a file on a local disk.

    While callers wait, one thread writes calls in batches, and reads outcomes and heartbeats.
    """

    def __init__(self, settings: WorkersSettings) -> None:
        self._queue = CallQueue(settings.path, settings.lease, settings.durability)
        self._changed = threading.Condition()
        self._entering: list[tuple[DispatchedCall, Future[DispatchOutcome]]] = []
        self._waiting: dict[str, Waiting] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    async def submit(self, call: DispatchedCall) -> DispatchOutcome:
        """Submit a call, and wait for its outcome; see `Dispatcher`."""
        told: Future[DispatchOutcome] = Future()
        with self._changed:
            if self._closed:
                raise StateError("The host is closed, so no call can be submitted. Open a Host.")
            self._entering.append((call, told))
            self._waiting.setdefault(call.key, []).append(told)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="toolstile-dispatcher", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        return await asyncio.wrap_future(told)

    def find(self, key: str) -> DispatchOutcome | None:
        """Return the outcome of a call that was submitted; see `Dispatcher`."""
        self._queue.look_after()
        standing = self._queue.standing([key])[key]
        return None if standing.mark is None else standing.outcome

    def withdraw(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning; see `Dispatcher`."""
        return self._queue.withdraw(key)

    def cancel(self, key: str) -> DispatchOutcome | None:
        """Keep a call from beginning, or have its handler ended; see `Dispatcher`."""
        return self._queue.withdraw(key, ending=CANCELLED)

    def heartbeat(self, key: str) -> float | None:
        """Return the age of the last heartbeat of a call's worker."""
        mark = self._queue.marks.get(key)
        # Because a worker records the outcome of a call before it removes the call.
        has_ended = mark is not None and outcome_of(mark).state is not DispatchState.UNKNOWN
        return None if has_ended else self._queue.heartbeat(key)

    def serve(self, runner: CallRunner, *, concurrency: int, stop: threading.Event) -> None:
        """Run calls in this process until `stop` is set and the running calls have ended."""
        Serving(self._queue, runner, concurrency).run(stop)

    def close(self) -> None:
        """Stop waiting for calls, and close the file; the calls stay as they are."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._fail(StateError("The host was closed."), set())
        self._queue.close()

    def _watch(self) -> None:
        version, due, pause = -1, 0.0, SHORTEST
        while True:
            with self._changed:
                if not (self._entering or self._closed):
                    self._changed.wait(pause if self._waiting else None)
                entering, self._entering = self._entering, []
                if self._closed:
                    return
            try:
                if entering:
                    self._queue.enter([call for call, _ in entering])
                if entering or time.monotonic() >= due:
                    self._queue.look_after()
                    due = time.monotonic() + self._queue.lease / BEATS
                before, version = version, self._queue.version()
                pause = SHORTEST if version != before else min(pause * 1.5, LONGEST)
                if version != before or entering:
                    self._tell()
            except StateError as error:
                self._fail(error, {told for _, told in entering})

    def _tell(self) -> None:
        with self._changed:
            keys = list(self._waiting)
        ended = {
            key: standing.outcome
            for key, standing in self._queue.standing(keys).items()
            if standing.outcome is not None
        }
        with self._changed:
            # Not yet the calls that are submitted again, because the file lacks them.
            again = {call.key for call, _ in self._entering}
            answered = {
                key: self._waiting.pop(key) for key in ended.keys() - again if key in self._waiting
            }
        for key, waiting in answered.items():
            for told in waiting:
                if told.set_running_or_notify_cancel():
                    told.set_result(ended[key])

    def _fail(self, error: StateError, fresh: Collection[Future[DispatchOutcome]]) -> None:
        """Give waiting callers the outcome `UNKNOWN`, or the error if their calls are fresh."""
        with self._changed:
            waiting, self._waiting = self._waiting, {}
        unknown = DispatchOutcome(DispatchState.UNKNOWN, str(error))
        for futures in waiting.values():
            for told in futures:
                if not told.set_running_or_notify_cancel():
                    continue
                # A caller that joined an earlier call gets `UNKNOWN`: that call may have run.
                if futures[0] in fresh:
                    told.set_exception(error)
                else:
                    told.set_result(unknown)


def local_dispatcher(settings: WorkersSettings, host: HostHandle) -> LocalDispatcher:
    """Return the dispatcher of this machine."""
    database: DatabaseSettings | None = host.settings("database")
    shared = None if database is None else database.path
    if shared is not None and "path" not in settings.model_fields_set:
        settings = settings.model_copy(update={"path": shared})
    return LocalDispatcher(settings)
