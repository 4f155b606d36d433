"""Sessions, counts and questions in a PostgreSQL database, shared by hosts on many machines."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.approval_store import EventRecord
from toolstile_hookspecs.services.session_store import Entry
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_plugins.database.postgres_database import (
    PostgresDatabase,
    ServerClock,
    is_pooled,
    lock_of,
)
from toolstile_plugins.database.schema import Part
from toolstile_plugins.inbox.sql import TABLES, SqlApprovals, SqliteApprovals
from toolstile_plugins.sessions.counter import Held
from toolstile_plugins.sessions.sqlite import SqlCounter, SqlDecision, SqliteSessions, SqlSessions

if TYPE_CHECKING:
    from toolstile_hookspecs.services.session_store import SessionStore
    from toolstile_plugins.database.bounded_connection import (
        BoundedConnection as Connection,
        Transaction,
    )

CHANNEL: Final = "toolstile_sessions"
TRUST: Final = 5.0
"""Seconds after which the database is queried anyway, because a network may lose news."""
_PAUSE: Final = 1.0
_MANY: Final = 1000


@dataclass(slots=True)
class Known:
    """The number of the newest known entry of a session, and the moment of the next query."""

    newest: int = 0
    until: float = 0.0


class Wakeups:
    """Receives other hosts' news of sessions, on a separate thread.

    Without news, through a pooler or on a lost connection, no number is known. A function is called
    when the stops may have changed.
    """

    def __init__(self, held: PostgresDatabase, hear_stops: Callable[[], object]) -> None:
        self._held, self._hear_stops = held, hear_stops
        self._lock = threading.Lock()
        self._sessions: dict[int, Known] = {}
        self._thread: threading.Thread | None = None
        self._process: int | None = None
        self._socket: socket.socket | None = None
        self._stopping = threading.Event()
        self._is_heard = threading.Event()

    def newest(self, session_id: str) -> int | None:
        """Return the number of a session's newest entry; None if only a query can tell."""
        known = self._sessions.get(lock_of("session", session_id))
        if known is None or time.monotonic() > known.until or not self._is_heard.is_set():
            return None
        return known.newest

    def follow(self, session_id: str) -> Callable[[int], None]:
        """Follow a session before reading it; return a function for the newest number read.

        Until the thread listens, the function does nothing, because later news would be missed.
        """
        with self._lock:
            if self._thread is None:
                self._process, self._stopping = os.getpid(), threading.Event()
                self._thread = threading.Thread(
                    target=self._hear, args=(self._stopping,), daemon=True, name="toolstile-news"
                )
                self._thread.start()
        if not self._is_heard.is_set():
            return lambda newest: None  # noqa: ARG005 - the signature of `confirm`
        with self._lock:
            known = self._sessions.setdefault(lock_of("session", session_id), Known())
        before = known.newest

        def confirm(newest: int) -> None:
            # Numbers may fall, because a deleted session restarts at 1.
            known.newest = newest if known.newest == before else max(known.newest, newest)
            known.until = time.monotonic() + TRUST

        return confirm

    def follows(self, session_id: str) -> bool:
        """Tell whether a session is followed."""
        return lock_of("session", session_id) in self._sessions

    def close(self) -> None:
        """End the thread; the next use starts a new thread."""
        thread, self._thread = self._thread, None
        if thread is None or self._process != os.getpid():
            return
        self._stopping.set()
        with self._lock:
            if self._socket is not None:
                # Wakes the thread, which waits for news.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        thread.join()

    def _hear(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            with (
                suppress(StateError),
                self._held.explaining(),
                closing(self._held.connect()) as connection,
            ):
                if is_pooled(connection):
                    return
                connection.execute(f"LISTEN {CHANNEL}".encode())
                # Because the next news may be far away.
                connection.patience = float("inf")
                with closing(socket.socket(fileno=os.dup(connection.fileno()))) as copy:
                    with self._lock:
                        self._socket = copy
                    try:
                        self._is_heard.set()
                        self._hear_stops()
                        for news in () if stopping.is_set() else connection.notifies():
                            # Because any user of the database can send a notification.
                            with suppress(ValueError, TypeError):
                                if news.payload == _STOPS:
                                    self._hear_stops()
                                    continue
                                self._note(*map(int, news.payload.split(":")))
                    finally:
                        with self._lock:
                            self._socket = None
            self._is_heard.clear()
            with self._lock:
                self._sessions.clear()
            stopping.wait(_PAUSE)

    def _note(self, session: int, number: int) -> None:
        known = self._sessions.get(session)
        if known is not None:
            known.newest = max(known.newest, number)
        if len(self._sessions) > _MANY:
            with self._lock:
                now = time.monotonic() - TRUST
                for name in [name for name, each in self._sessions.items() if each.until < now]:
                    del self._sessions[name]


COUNTS: Final = Part(
    "counts",
    (
        # As NUMERIC, whole amounts are added exactly.
        """CREATE TABLE toolstile_counts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    key TEXT COLLATE "C" NOT NULL,
    amount NUMERIC NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL
);
CREATE INDEX toolstile_counts_by_key ON toolstile_counts (key, until);
CREATE INDEX toolstile_counts_by_end ON toolstile_counts (until)""",
    ),
)
"""The table of reservations."""

# SKIP LOCKED, because another transaction may be removing the same expired rows.
_KEEP: Final = """WITH expired AS (
    DELETE FROM toolstile_counts WHERE id IN (
        SELECT id FROM toolstile_counts WHERE until <= ? AND id <> ?
        LIMIT 100 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO toolstile_counts AS old VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    key = excluded.key, amount = excluded.amount, at = excluded.at, until = excluded.until
    WHERE old.until <= excluded.at"""


class PostgresCounter(SqlCounter):
    """A `Counter` in a database, beside the store of sessions in it; see `SqlCounter`."""

    def __init__(self, held: PostgresDatabase, store: SessionStore) -> None:
        super().__init__(held, store)
        held.require(COUNTS)

    def _alone(self, key: str) -> AbstractContextManager[Transaction]:
        transaction: AbstractContextManager[Transaction]
        transaction = self._database.writing(lock_of("count", key))
        return transaction

    def _keep(self, place: Transaction, held: Held) -> bool:
        row = held._replace(amount=self._written(held.amount))
        return place.execute(_KEEP, (held.at, held.id, *row)).rowcount > 0

    def _written(self, amount: float) -> Any:
        return Decimal(amount)

    def _number(self, amount: Any) -> float:
        return int(amount) if amount == amount.to_integral_value() else float(amount)


SESSIONS: Final = Part(
    "sessions",
    (
        # As bytes, because a database in another encoding cannot store every text.
        """CREATE TABLE toolstile_sessions (
    session_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    decision_id TEXT COLLATE "C" NOT NULL,
    epoch BIGINT NOT NULL,
    changes BYTEA NOT NULL,
    has_files BOOLEAN NOT NULL,
    decided_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (session_id, number)
);
CREATE TABLE toolstile_decisions (
    decision_id TEXT COLLATE "C" NOT NULL PRIMARY KEY
)""",
        """ALTER TABLE toolstile_decisions ADD COLUMN is_made BOOLEAN NOT NULL DEFAULT TRUE;
CREATE FUNCTION toolstile_refuse() RETURNS VOID LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'a guard refused the transaction' USING ERRCODE = 'TS001'; END $$""",
    ),
)
"""The tables of sessions, and of the ids of their decisions."""

STOPS: Final = Part(
    "stops", ("CREATE TABLE toolstile_stops (id SMALLINT PRIMARY KEY, content BYTEA NOT NULL)",)
)
"""The table of the one text of all stops, as bytes for the same reason."""
_READ_STOPS: Final = "SELECT content FROM toolstile_stops"
_KEEP_STOPS: Final = (
    "INSERT INTO toolstile_stops VALUES (1, ?) "
    "ON CONFLICT (id) DO UPDATE SET content = excluded.content"
)
_STOPS: Final = "stops"
_DECIDING: Final = lock_of("decisions", _STOPS)

_APPEND: Final = (
    "WITH decision AS (INSERT INTO toolstile_decisions VALUES (%s)) "
    "INSERT INTO toolstile_sessions (session_id, number, decision_id, epoch, changes, has_files) "
    "VALUES (%s, %s, %s, %s, %s, %s)"
)
_RULE_OUT: Final = (
    "INSERT INTO toolstile_decisions AS old VALUES (%s, FALSE) "
    "ON CONFLICT (decision_id) DO UPDATE SET is_made = old.is_made RETURNING is_made"
)


class PostgresSessions(SqlSessions):
    """The entries of sessions in a database; a `SessionStore`.

    Decisions of one session wait for each other; decisions of different sessions do not. Decisions
    write to the database `held`.
    """

    _moment = "extract(epoch FROM max(decided_at))"

    def __init__(self, held: PostgresDatabase) -> None:
        super().__init__(held)
        self.held = held
        self._approvals: PostgresApprovals | None = None
        held.require(SESSIONS)
        held.require(STOPS)
        self.heard: Callable[[str], object] = str
        self._counter = PostgresCounter(held, self)
        self._news = Wakeups(held, lambda: self.heard(self.stops()))

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there may be entries after a number.

        Other hosts send news of a session that was read here, so this method needs no query and
        may miss the latest decision. The decision itself is exact. On an event loop this method
        never queries, and returns True when in doubt.
        """
        self.held.check_process()
        newest = self._news.newest(session_id)
        if newest is not None:
            return newest > number
        if is_on_loop():
            # Because a query may wait for a lock; `after` waits on another thread.
            return True
        confirm = self._news.follow(session_id) if self._news.follows(session_id) else None
        has_moved = super().has_moved(session_id, number)
        if confirm is not None and not has_moved:
            confirm(number)
        return has_moved

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order."""
        confirm = self._news.follow(session_id)
        entries = super().after(session_id, number)
        confirm(entries[-1].number if entries else number)
        return entries

    @contextmanager
    def deciding(self, session_id: str) -> Generator[PostgresDecision]:
        """Open the transaction of a decision."""
        with self.held.writing(lock_of("session", session_id)) as transaction:
            # The stops are read later than the lock is had, for which `change_stops` waits.
            transaction.execute("SELECT pg_advisory_xact_lock_shared(?)", (_DECIDING,))
            stops = transaction.execute(_READ_STOPS)
            hear = lambda: self.heard(_text(stops.fetchall()))  # noqa: E731 - called once
            yield PostgresDecision(transaction, session_id, self._news, hear)

    def stops(self) -> str:
        """Return the kept text of the stops, at first empty; see `SessionStore`."""
        return _text(self.held.read(_READ_STOPS))

    def change_stops(self, change: Callable[[str], str]) -> None:
        """Replace the text, then wait for decisions that may have read the old one."""
        with self.held.writing(lock_of("change", _STOPS)) as transaction:
            text = change(_text(transaction.execute(_READ_STOPS).fetchall()))
            transaction.execute(_KEEP_STOPS, (text.encode(),))
            transaction.tell(CHANNEL, _STOPS)
        with self.held.writing() as transaction:
            transaction.execute("SET LOCAL lock_timeout = '5s'")
            transaction.execute("SELECT pg_advisory_xact_lock(?)", (_DECIDING,))

    def key_of(self, decision_id: str) -> str:
        """Return the key that workspaces note of a decision."""
        return f"sessions:{self.held.identity(SESSIONS)}:{decision_id}:{self.database}"

    def decided(self, key: str) -> bool | None:
        """Tell whether the decision of a key was made; None if another store made it.

        After a lost connection, the transaction may still run: this method waits for a transaction
        that has sent the decision, and makes a transaction fail that sends the decision later.
        """
        kind, _, rest = key.partition(":")
        identity, _, rest = rest.partition(":")
        if (kind, identity) != ("sessions", self.held.identity(SESSIONS)):
            return None
        decision_id = rest.partition(":")[0]
        with self.held.writing() as transaction:
            ((is_made,),) = transaction.execute(_RULE_OUT, (decision_id,)).fetchall()
        return bool(is_made)

    def counter(self) -> PostgresCounter:
        """Return the counter of the database."""
        return self._counter

    def approvals(self) -> PostgresApprovals:
        """Return the store of questions in the database."""
        if self._approvals is None:
            self._approvals = PostgresApprovals(self.held)
        return self._approvals

    def close(self) -> None:
        """Close the connections; the next use connects again."""
        self._news.close()
        super().close()


def _text(rows: Sequence[Any]) -> str:
    return bytes(rows[0][0]).decode() if rows else ""


class PostgresDecision(SqlDecision):
    """An open decision in a database; see `OpenDecision`."""

    def __init__(
        self,
        transaction: Transaction,
        session_id: str,
        news: Wakeups,
        hear_stops: Callable[[], object],
    ) -> None:
        super().__init__(transaction, session_id)
        self._news, self._hear_stops = news, hear_stops

    @property
    def connection(self) -> Connection:
        """The connection of the transaction, which has begun."""
        connection: Connection = self.transaction.send()
        return connection

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order, and follow the session."""
        confirm = self._news.follow(self._session_id)
        entries = super().after(number)
        self._hear_stops()
        confirm(entries[-1].number if entries else number)
        return entries

    def append(self, entry: Entry) -> None:
        """Record an entry."""
        number, decision_id, epoch, changes, has_files = entry
        written = changes.encode("utf-8", "surrogatepass")
        row = (self._session_id, number, decision_id, epoch, written, has_files)
        self.transaction.execute(_APPEND, (decision_id, *row))
        self.transaction.tell(CHANNEL, f"{lock_of('session', self._session_id)}:{number}")


class FileSessions(SqliteSessions):
    """The entries of sessions in a SQLite file that also has the questions of the inbox."""

    _approvals: SqliteApprovals | None = None

    def approvals(self) -> SqliteApprovals:
        """Return the one store of questions in the file; see `OffersApprovals`."""
        if self._approvals is None:
            self._approvals = SqliteApprovals(self.path, shared=True, durability=self.durability)
        return self._approvals

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._approvals is not None:
            self._approvals.close()
        super().close()


# --- Questions


_POSTGRES: Final = {
    "new": "",
    "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "real": "DOUBLE PRECISION",
    "bytes": "BYTEA",
    "flag": "BOOLEAN NOT NULL DEFAULT FALSE",
}
APPROVALS: Final = Part("approvals", (TABLES.format(**_POSTGRES),))
"""The tables of questions, grants and events."""


class PostgresApprovals(ServerClock, SqlApprovals):
    """Questions in tables of a database, made at the first use."""

    # Locked, so that two processes deliver each event once and in order.
    _alone = " FOR UPDATE"

    def __init__(self, held: PostgresDatabase) -> None:
        super().__init__(held, (held.database, "Remove its row from toolstile_questions"))
        held.require(APPROVALS)

    def _tell(self, hear: Callable[[EventRecord], object], event: EventRecord) -> None:
        # Apart, because a listener's write to its session must survive a failed delivery.
        with self._database.apart():
            hear(event)
