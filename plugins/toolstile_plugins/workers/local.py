"""The dispatcher and the workers of one machine, and the SQLite file of their calls."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from toolstile_hookspecs import Durability, HostHandle, StateError
from toolstile_hookspecs.services.dispatcher import (
    CallRunner,
    DispatchedCall,
    DispatchOutcome,
    DispatchState,
    StartMark,
    outcome_of,
    run_once,
    withdraw,
)
from toolstile_plugins.sqlite_file import SqliteFile, SqlTables
from toolstile_plugins.workers.outcomes import (
    KEPT,
    mark_of,
    other_version,
    too_late,
    until_recorded,
)
from toolstile_plugins.workers.settings import BEATS, WorkersSettings

if TYPE_CHECKING:
    from toolstile_plugins.database.settings import DatabaseSettings


class SqliteMarks:
    """The marks of starts in a file; implements `StartMarks`."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def begin(
        self,
        key: str,
        token: str,
        *,
        over: str | None = None,
        outcome: DispatchOutcome | None = None,
    ) -> StartMark | None:
        """Make the mark of a key, or replace the mark with the token `over`; see `StartMarks`."""
        with self._file.writing() as connection:
            standing = self.get(key)
            if standing is not None and standing.token == token:
                return None
            unknown = standing is None or outcome_of(standing).state is DispatchState.UNKNOWN
            if standing is not None and not (unknown and over == standing.token):
                return standing
            connection.execute(
                "INSERT OR REPLACE INTO toolstile_starts VALUES (?, ?, ?, ?)",
                (key, token, None if outcome is None else outcome.to_json(), time.time()),
            )
            return None

    def finish(self, key: str, token: str, outcome: DispatchOutcome) -> bool:
        """Record the outcome of an attempt; return False if another attempt has the mark."""

        def record() -> bool:
            statement = "UPDATE toolstile_starts SET outcome = ? WHERE key = ? AND token = ?"
            return self._file.change(statement, outcome.to_json(), key, token) > 0

        return until_recorded(record)

    def get(self, key: str) -> StartMark | None:
        """Return the mark of a key, None if it has none."""
        rows = self._file.read("SELECT token, outcome FROM toolstile_starts WHERE key = ?", key)
        return mark_of(*rows[0]) if rows else None


_TABLES: Final = (
    """
CREATE TABLE IF NOT EXISTS toolstile_starts (
    key TEXT NOT NULL PRIMARY KEY,
    token TEXT NOT NULL,
    outcome TEXT,
    made_at REAL NOT NULL
)
""",
    """
CREATE TABLE IF NOT EXISTS toolstile_calls (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    tool TEXT NOT NULL,
    version TEXT,
    params TEXT NOT NULL,
    repeatable INTEGER NOT NULL,
    begin_by REAL,
    deadline REAL,
    priority INTEGER NOT NULL,
    traceparent TEXT,
    connection TEXT,
    worker TEXT,
    ending TEXT
)
""",
    """
CREATE TABLE IF NOT EXISTS toolstile_workers (
    id TEXT NOT NULL PRIMARY KEY,
    tools TEXT NOT NULL,
    seen REAL NOT NULL
)
""",
)
_COLUMNS: Final = ", ".join(DispatchedCall._fields)
_VALUES: Final = ", ".join("?" * len(DispatchedCall._fields))
_INSERT: Final = f"INSERT OR IGNORE INTO toolstile_calls ({_COLUMNS}) VALUES ({_VALUES})"  # noqa: S608 - ours
NOT_RUN: Final = DispatchState.NOT_RUN


class Standing(NamedTuple):
    """A submitted call, as the file has it: the mark of its start, and if it is still there."""

    mark: StartMark | None
    is_queued: bool

    @property
    def outcome(self) -> DispatchOutcome | None:
        """The final outcome; None if the call may still get an outcome."""
        if self.mark is None:
            return None if self.is_queued else DispatchOutcome(NOT_RUN, "It was withdrawn.")
        outcome = outcome_of(self.mark)
        is_open = self.is_queued and outcome.state is DispatchState.UNKNOWN
        return None if is_open else outcome


class CallQueue(SqlTables):
    """The calls, their marks and their workers; each method is one transaction.

    A worker without a heartbeat for `lease` seconds counts as dead.
    """

    _database: SqliteFile

    def __init__(self, path: Path, lease: float, durability: Durability = "power") -> None:
        super().__init__(SqliteFile(path, durability, "calls of workers", _prepare))
        self.lease = lease
        self.marks = SqliteMarks(self._database)

    def version(self) -> int:
        """Return a number that changes when another process changes the file."""
        return int(self._database.read("PRAGMA data_version")[0][0])

    # --- for hosts ---

    def enter(self, calls: Sequence[DispatchedCall]) -> None:
        """Queue calls, except calls that are queued or have ended."""
        with self._database.writing() as connection:
            for call in calls:
                mark = self.marks.get(call.key)
                if mark is None or (call.repeatable and _is_unknown(mark)):
                    row = [
                        each.timestamp() if isinstance(each, datetime) else each for each in call
                    ]
                    connection.execute(_INSERT, row)

    def standing(self, keys: Collection[str]) -> dict[str, Standing]:
        """Return the marks of calls and whether they are queued, by key."""
        rows = self._database.read(
            "SELECT wanted.value, starts.token, starts.outcome, calls.key FROM json_each(?) wanted "
            "LEFT JOIN toolstile_starts starts ON starts.key = wanted.value "
            "LEFT JOIN toolstile_calls calls ON calls.key = wanted.value",
            json.dumps(list(keys)),
        )
        return {
            key: Standing(None if token is None else mark_of(token, outcome), queued is not None)
            for key, token, outcome, queued in rows
        }

    def look_after(self) -> None:
        """Release the calls of dead workers, and refuse calls that no worker will begin."""
        with self._database.writing() as connection:
            dead = "DELETE FROM toolstile_workers WHERE NOT (seen BETWEEN ? AND ?)"
            connection.execute(dead, self._living())
            # Also the calls of workers that were removed earlier, with calls unfinished.
            # One query in most cases, because this method also runs whenever calls are submitted.
            for (key,) in connection.execute(
                "SELECT key FROM toolstile_calls WHERE worker IS NOT NULL AND worker NOT IN "
                "(SELECT id FROM toolstile_workers)"
            ).fetchall():
                self.release(key)
            # Refuse calls that waited too long, or whose version no worker has.
            workers: list[dict[str, str | None]] = [
                json.loads(tools)
                for (tools,) in connection.execute("SELECT tools FROM toolstile_workers")
            ]
            waiting = connection.execute(
                "SELECT DISTINCT tool, version FROM toolstile_calls WHERE worker IS NULL"
            ).fetchall()
            for tool, version in waiting:
                known = {tools[tool] for tools in workers if tool in tools}
                if known and version not in known:
                    self._end(connection, other_version(tool, version, known), tool, version)
                else:
                    self._end(connection, too_late(tool, workers), tool, version, time.time())

    def release(self, key: str) -> None:
        """Queue a call for another worker if it may still begin, else remove it."""
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE toolstile_calls SET worker = NULL WHERE key = ? AND ending IS NULL AND "
                "(repeatable OR key NOT IN (SELECT key FROM toolstile_starts))",
                (key,),
            )
            connection.execute(
                "DELETE FROM toolstile_calls WHERE key = ? AND worker IS NOT NULL", (key,)
            )

    def withdraw(self, key: str, *, ending: str | None = None) -> DispatchOutcome | None:
        """Keep a call from beginning; if it runs, note the reason to end it and return None."""
        with self._database.writing() as connection:
            mark = withdraw(self.marks, key) or self.marks.get(key)
            assert mark is not None  # noqa: S101 - `withdraw` or an attempt has made it
            if _is_unknown(mark) and self.heartbeat(key) is not None:
                connection.execute(
                    "UPDATE toolstile_calls SET ending = coalesce(?, ending) WHERE key = ?",
                    (ending, key),
                )
                return None
            connection.execute("DELETE FROM toolstile_calls WHERE key = ?", (key,))
            return outcome_of(mark)

    def heartbeat(self, key: str) -> float | None:
        """Return the age of the last heartbeat of a call's worker; None without a living worker."""
        rows = self._database.read(
            "SELECT seen FROM toolstile_calls calls JOIN toolstile_workers ON id = worker "
            "WHERE calls.key = ? AND seen BETWEEN ? AND ?",
            *(key, *self._living()),
        )
        return max(time.monotonic() - rows[0][0], 0.0) if rows else None

    def _living(self) -> tuple[float, float]:
        # A later heartbeat is of an earlier boot.
        now = time.monotonic()
        return now - self.lease, now + 1

    def _end(
        self,
        connection: sqlite3.Connection,
        outcome: DispatchOutcome,
        tool: str,
        version: str | None,
        begin_by: float | None = None,
    ) -> None:
        rows = connection.execute(
            "SELECT key FROM toolstile_calls WHERE worker IS NULL AND tool = ? AND version IS ? "
            "AND (? IS NULL OR begin_by < ?)",
            (tool, version, begin_by, begin_by),
        ).fetchall()
        for (key,) in rows:
            self.marks.begin(key, uuid4().hex, outcome=outcome)
            connection.execute("DELETE FROM toolstile_calls WHERE key = ?", (key,))

    # --- for workers ---

    def beat(self, worker: str, tools: Mapping[str, str | None]) -> None:
        """Record a heartbeat of a worker; a worker that was declared dead returns."""
        statement = "INSERT OR REPLACE INTO toolstile_workers VALUES (?, ?, ?)"
        self._database.change(statement, worker, json.dumps(tools), time.monotonic())

    def leave(self, worker: str) -> None:
        """Remove a worker that has ended, and outcomes that are too old."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM toolstile_workers WHERE id = ?", (worker,))
            connection.execute(
                "DELETE FROM toolstile_starts WHERE outcome IS NOT NULL AND made_at < ?",
                (time.time() - KEPT,),
            )

    def take(
        self, worker: str, tools: Mapping[str, str | None], number: int
    ) -> list[DispatchedCall]:
        """Take the next calls, at most `number`."""
        wanted = json.dumps([[name, version] for name, version in tools.items()])
        found = (
            f"SELECT {_COLUMNS} FROM toolstile_calls WHERE worker IS NULL AND EXISTS "  # noqa: S608 - our columns
            "(SELECT 1 FROM json_each(?) WHERE json_extract(value, '$[0]') = tool AND "
            "json_extract(value, '$[1]') IS version) ORDER BY priority DESC, number LIMIT ?"
        )
        if not self._database.read(found, wanted, 1):
            return []
        with self._database.writing() as connection:
            rows = connection.execute(found, (wanted, number)).fetchall()
            for row in rows:
                connection.execute(
                    "UPDATE toolstile_calls SET worker = ? WHERE key = ?", (worker, row[0])
                )
            return [_call_of(row) for row in rows]

    def to_end(self, worker: str) -> list[tuple[str, str]]:
        """Return the keys of a worker's calls to end, each with the reason."""
        return self._database.read(
            "SELECT key, ending FROM toolstile_calls WHERE worker = ? AND ending IS NOT NULL",
            worker,
        )

    def drop(self, worker: str, key: str) -> None:
        """Remove a call whose outcome is recorded."""
        self._database.change(
            "DELETE FROM toolstile_calls WHERE key = ? AND worker = ?", key, worker
        )


def _prepare(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)


def _is_unknown(mark: StartMark) -> bool:
    return outcome_of(mark).state is DispatchState.UNKNOWN


def _call_of(row: Sequence[Any]) -> DispatchedCall:
    def moment(stamp: Any) -> datetime | None:
        return None if stamp is None else datetime.fromtimestamp(stamp, UTC)

    call = DispatchedCall(*row)
    begin_by, deadline = moment(call.begin_by), moment(call.deadline)
    return call._replace(repeatable=bool(call.repeatable), begin_by=begin_by, deadline=deadline)


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
                now = datetime.now(UTC)
                for call in list(self._running.values()):
                    if call.deadline is not None and call.deadline <= now:
                        self._runner.end(call.key, LATE)
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
        self._queue.look_after()
        standing = self._queue.standing([key])[key]
        return None if standing.mark is None else standing.outcome

    def withdraw(self, key: str) -> DispatchOutcome | None:
        return self._queue.withdraw(key)

    def cancel(self, key: str) -> DispatchOutcome | None:
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
