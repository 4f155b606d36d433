"""Stored sessions in a PostgreSQL database, shared by hosts on many machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from toolstile_hookspecs.services.approval_store import EventRecord
from toolstile_hookspecs.services.session_store import Entry
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_plugins.database.counter import PostgresCounter
from toolstile_plugins.database.postgres_database import PostgresDatabase, lock_of
from toolstile_plugins.database.schema import Part
from toolstile_plugins.database.wakeups import CHANNEL, Wakeups
from toolstile_plugins.inbox.sql import TABLES, SqlApprovals, SqliteApprovals
from toolstile_plugins.sessions.sql import SqlDecision, SqlSessions
from toolstile_plugins.sessions.sqlite import SqliteSessions

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import (
        BoundedConnection as Connection,
        Transaction,
    )


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

    Decisions of one session wait for each other; decisions of different sessions do not.

    Attributes:
        held: The database, for writing within decisions.
    """

    _moment = "extract(epoch FROM max(decided_at))"

    def __init__(self, held: PostgresDatabase) -> None:
        super().__init__(held)
        self.held = held
        self._approvals: PostgresApprovals | None = None
        held.require(SESSIONS)
        self._counter = PostgresCounter(held, self)
        self._news = Wakeups(held)

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
            yield PostgresDecision(transaction, session_id, self._news)

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


class PostgresDecision(SqlDecision):
    """An open decision in a database; see `OpenDecision`."""

    def __init__(self, transaction: Transaction, session_id: str, news: Wakeups) -> None:
        super().__init__(transaction, session_id)
        self._news = news

    @property
    def connection(self) -> Connection:
        """The connection of the transaction, which has begun."""
        connection: Connection = self.transaction.send()
        return connection

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order, and follow the session."""
        confirm = self._news.follow(self._session_id)
        entries = super().after(number)
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


class PostgresApprovals(SqlApprovals):
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
