"""The tables of calls on workers in a PostgreSQL database: marks of starts, and the workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from toolstile_hookspecs.services.dispatcher import DispatchOutcome, StartMark
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.schema import Part
from toolstile_plugins.workers.outcomes import KEPT, mark_of, until_recorded

WORKERS: Final = Part(
    "workers",
    (
        """CREATE TABLE toolstile_starts (
    key TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    token TEXT NOT NULL,
    worker TEXT,
    state TEXT,
    outcome TEXT,
    is_cancelled BOOLEAN NOT NULL DEFAULT FALSE,
    started_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX toolstile_starts_running ON toolstile_starts (worker) WHERE outcome IS NULL;
CREATE TABLE toolstile_workers (
    worker TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    queue TEXT NOT NULL,
    tools TEXT NOT NULL,
    takes_calls BOOLEAN NOT NULL,
    alive_at TIMESTAMPTZ NOT NULL
)""",
    ),
)
"""The tables of marks and of workers."""

OUTCOMES: Final = "toolstile_outcomes"
"""The channel that announces outcomes, by `news_of` their keys."""
CANCELS: Final = "toolstile_cancels"
"""The channel that announces cancelled calls."""

# It returns no row if another mark exists that must stay.
_BEGIN: Final = (
    "INSERT INTO toolstile_starts AS mark (key, token, worker, state, outcome) "
    "VALUES (%s, %s, %s, %s, %s) ON CONFLICT (key) DO UPDATE SET token = excluded.token, "
    "worker = excluded.worker, state = excluded.state, outcome = excluded.outcome, "
    "is_cancelled = FALSE, started_at = excluded.started_at "
    "WHERE mark.token = %s AND (mark.outcome IS NULL OR mark.state = 'unknown') RETURNING 1"
)
_FINISH: Final = (
    "UPDATE toolstile_starts SET state = %s, outcome = %s WHERE key = %s AND token = %s"
)
_GET: Final = "SELECT token, outcome FROM toolstile_starts WHERE key = %s"
_FOUND: Final = (
    "SELECT key, token, outcome, "
    "EXTRACT(EPOCH FROM clock_timestamp() - worker.alive_at)::float8 "
    "FROM toolstile_starts AS mark LEFT JOIN toolstile_workers AS worker USING (worker) "
    "WHERE key = ANY(%s)"
)
_GIVE_UP: Final = (
    "UPDATE toolstile_starts SET worker = NULL WHERE key = %s AND worker = %s "
    "AND outcome IS NULL RETURNING 1"
)
_CANCEL: Final = (
    "UPDATE toolstile_starts SET is_cancelled = TRUE WHERE key = %s AND outcome IS NULL"
)
_CANCELLED: Final = (
    "SELECT key FROM toolstile_starts WHERE worker = %s AND is_cancelled AND outcome IS NULL"
)
_OLD: Final = f"outcome IS NOT NULL AND started_at < clock_timestamp() - INTERVAL '{KEPT} seconds'"
_OLD_KEYS: Final = f"SELECT key FROM toolstile_starts WHERE {_OLD} LIMIT 1000"  # noqa: S608 - ours
_PRUNE: Final = f"DELETE FROM toolstile_starts WHERE key = ANY(%s) AND {_OLD} RETURNING 1"  # noqa: S608 - ours
_ALIVE: Final = (
    "INSERT INTO toolstile_workers VALUES (%s, %s, %s, %s, clock_timestamp()) "
    "ON CONFLICT (worker) DO UPDATE SET takes_calls = excluded.takes_calls, "
    "alive_at = excluded.alive_at RETURNING 1"
)
_GONE: Final = (
    "DELETE FROM toolstile_workers WHERE worker = %s "
    "OR alive_at < clock_timestamp() - INTERVAL '1 day' RETURNING 1"
)
_WORKERS: Final = (
    "SELECT worker, queue, tools, takes_calls FROM toolstile_workers "
    "WHERE alive_at > clock_timestamp() - %s * INTERVAL '1 second'"
)


class Worker(NamedTuple):
    """A worker that is alive; `tools` has versions by name. It takes calls until asked to stop."""

    worker: str
    queue: str
    tools: Mapping[str, str | None]
    takes_calls: bool = True


class FoundMark(NamedTuple):
    """A mark, and the seconds since its worker's last heartbeat; None without a worker."""

    mark: StartMark
    age: float | None

    def is_alive(self, dead_after: float) -> bool:
        """Return whether the worker of the mark is alive."""
        return self.age is not None and self.age <= dead_after


def news_of(key: str) -> str:
    """Return the name of a key on a channel."""
    # A digest, because PostgreSQL notifications are short and take no surrogates or NUL.
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class PostgresStarts:
    """The marks of starts in a database, and its workers; implements `StartMarks`.

    The last heartbeats of workers are by the clock of the database.
    `worker` is the id of the worker that begins attempts; None on a host.
    """

    def __init__(self, database: PostgresDatabase, worker: str | None = None) -> None:
        self._database = database
        self._worker = worker
        database.require(WORKERS)

    def begin(
        self,
        key: str,
        token: str,
        *,
        over: str | None = None,
        outcome: DispatchOutcome | None = None,
    ) -> StartMark | None:
        """Make the mark of a key, or replace the mark with the token `over`."""
        worker = self._worker if outcome is None else None
        values = (key, token, worker, *_columns(outcome), over)
        while not self._database.read(_BEGIN, *values):
            if (standing := self.get(key)) is not None:
                return None if standing.token == token else standing
        if outcome is not None:
            with self._database.writing() as transaction:
                transaction.tell(OUTCOMES, news_of(key))
        return None

    def finish(self, key: str, token: str, outcome: DispatchOutcome) -> bool:
        """Record the outcome of an attempt; return False if another attempt has the mark."""

        def record() -> bool:
            with self._database.writing() as transaction:
                done = transaction.execute(_FINISH, (*_columns(outcome), key, token))
                transaction.tell(OUTCOMES, news_of(key))
            return done.rowcount == 1

        return until_recorded(record)

    def give_up(self, key: str) -> None:
        """Record that an attempt of this worker has ended without an outcome."""
        until_recorded(lambda: self._database.read(_GIVE_UP, key, self._worker))

    def get(self, key: str) -> StartMark | None:
        """Return the mark of a key, None if it has none."""
        rows = self._database.read(_GET, key)
        return mark_of(*rows[0]) if rows else None

    def find(self, keys: Sequence[str]) -> dict[str, FoundMark]:
        """Return the marks of the keys that have one."""
        rows = self._database.read(_FOUND, list(keys))
        return {key: FoundMark(mark_of(token, outcome), age) for key, token, outcome, age in rows}

    def cancel(self, key: str) -> None:
        """Ask the worker of a running attempt to end it."""
        with self._database.writing() as transaction:
            transaction.execute(_CANCEL, (key,))
            transaction.tell(CANCELS, news_of(key))

    def cancelled(self, worker: str) -> list[str]:
        """Return the keys of the cancelled attempts that still run on a worker."""
        return [key for (key,) in self._database.read(_CANCELLED, worker)]

    def old(self) -> list[str]:
        """Return the keys of some marks with outcomes older than `KEPT`."""
        return [key for (key,) in self._database.read(_OLD_KEYS)]

    def prune(self, keys: Sequence[str]) -> None:
        """Remove the marks of the keys that are still old."""
        self._database.read(_PRUNE, list(keys))

    def say_alive(self, worker: Worker) -> None:
        """Record a heartbeat of a worker."""
        tools = json.dumps(dict(worker.tools))
        self._database.read(_ALIVE, worker.worker, worker.queue, tools, worker.takes_calls)

    def remove(self, worker: str) -> None:
        """Remove a worker that has ended, and workers without a heartbeat for a day."""
        self._database.read(_GONE, worker)

    def workers(self, dead_after: float) -> dict[str, Worker]:
        """Return the workers with a heartbeat within `dead_after` seconds, by id."""
        rows = self._database.read(_WORKERS, dead_after)
        return {
            id_: Worker(id_, queue, json.loads(tools), takes) for id_, queue, tools, takes in rows
        }


def _columns(outcome: DispatchOutcome | None) -> tuple[Any, Any]:
    return (None, None) if outcome is None else (outcome.state.value, outcome.to_json())
