"""Stored sessions and counters in a database: the bases, and the stores in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from toolstile_hookspecs import Durability, StateError
from toolstile_hookspecs.services.session_store import Entry, SessionInfo, SessionStore
from toolstile_plugins.sessions.counter import BaseCounter, Held, check_amount
from toolstile_plugins.sqlite_file import SqliteFile, SqlTables

_DELETED: Final = (
    "The stored session {session} was deleted meanwhile, so nothing can be added to it. Close "
    "every host that has it open, then start a new session."
)
_HAS_MOVED: Final = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number > ? LIMIT 1"
_AFTER: Final = (
    "SELECT number, decision_id, epoch, changes, has_files FROM toolstile_sessions "
    "WHERE session_id = ? AND number > ? ORDER BY number"
)
_IS_THERE: Final = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number = ?"
_REMOVE: Final = "DELETE FROM toolstile_sessions WHERE session_id = ? AND number <= ?"
_ALL: Final = 2**63 - 1
"""A number that no entry exceeds."""
_LIST: Final = (
    "SELECT session_id, max(number), {moment} FROM toolstile_sessions "
    "GROUP BY session_id ORDER BY 3, 1"
)


class SqlSessions(SqlTables, ABC):
    """The entries of sessions in a table of a database; a `SessionStore`."""

    _moment = "max(decided_at)"  # the SQL of the time of the last decision, in seconds

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there are entries after a number."""
        return bool(self._database.read(_HAS_MOVED, session_id, number))

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order."""
        return [_entry(row) for row in self._database.read(_AFTER, session_id, number)]

    @abstractmethod
    def deciding(self, session_id: str) -> AbstractContextManager[SqlDecision]:
        """Open the transaction of a decision."""

    def condense(self, session_id: str, whole: Entry) -> None:
        """Keep an entry with the whole state in place of those up to its number."""
        with self.deciding(session_id) as decision:
            place = session_id, whole.number
            if decision.transaction.execute(_IS_THERE, place).fetchall():
                self._remove(decision.transaction, *place)
                decision.append(whole)

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the stored sessions, the one changed last at the end."""
        return [
            SessionInfo(session_id, number, datetime.fromtimestamp(float(moment), UTC))
            for session_id, number, moment in self._database.read(_LIST.format(moment=self._moment))
        ]

    def delete(self, session_id: str) -> bool:
        """Remove a session; the ids of its decisions stay known."""
        with self.deciding(session_id) as decision:
            return self._remove(decision.transaction, session_id, _ALL) > 0

    def _remove(self, transaction: Any, session_id: str, number: int) -> int:
        removed: int = transaction.execute(_REMOVE, (session_id, number)).rowcount
        return removed


class SqlDecision(ABC):
    """An open decision in a database; see `OpenDecision`."""

    def __init__(self, transaction: Any, session_id: str) -> None:
        self.transaction = transaction
        self._session_id = session_id

    @property
    def connection(self) -> Any:
        """The connection of the transaction, which has begun."""
        return self.transaction

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number; raises `StateError` if the session was deleted."""
        # The newest entry is always there, condensed or not.
        found = self.transaction.execute(_AFTER, (self._session_id, number - 1)).fetchall()
        if number and not found:
            raise StateError(_DELETED.format(session=self._session_id))
        return [_entry(row) for row in found if row[0] > number]

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Record an entry."""


def _entry(row: Sequence[Any]) -> Entry:
    number, decision_id, epoch, changes, has_files = row
    if not isinstance(changes, str):
        changes = bytes(changes).decode("utf-8", "surrogatepass")
    return Entry(number, decision_id, epoch, changes, bool(has_files))


_VERSION: Final = "1"
_TABLES: Final = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS toolstile_sessions (
    session_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    decision_id TEXT NOT NULL UNIQUE,
    epoch INTEGER NOT NULL,
    changes TEXT NOT NULL,
    has_files INTEGER NOT NULL,
    decided_at REAL NOT NULL,
    PRIMARY KEY (session_id, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS toolstile_decisions (
    decision_id TEXT NOT NULL PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS toolstile_sessions_about (
    identity TEXT NOT NULL, version TEXT NOT NULL
);
INSERT INTO toolstile_sessions_about SELECT '{identity}', '{version}'
    WHERE NOT EXISTS (SELECT 1 FROM toolstile_sessions_about);
COMMIT;
"""
_KEEP_IDS: Final = (
    "INSERT OR IGNORE INTO toolstile_decisions "
    "SELECT decision_id FROM toolstile_sessions WHERE session_id = ? AND number <= ?"
)
_APPEND: Final = "INSERT INTO toolstile_sessions VALUES (?, ?, ?, ?, ?, ?, ?)"


class SqliteSessions(SqlSessions):
    """The entries of sessions in a file, in WAL mode; a `SessionStore`.

    The file and its directories are made at the first use. By `durability`, a decision waits for
    the disk. A `SqliteCounter` counts within decisions through `file`.
    """

    def __init__(self, path: str | os.PathLike[str], *, durability: Durability = "power") -> None:
        self.path = Path(path)
        self.durability: Durability = durability
        self._identity = ""
        self.file = SqliteFile(self.path, durability, "stored sessions", self._identify)
        super().__init__(self.file)
        self._counter = SqliteCounter(self)

    @contextmanager
    def deciding(self, session_id: str) -> Generator[SqliteDecision]:
        """Open the transaction of a decision."""
        with self.file.writing() as connection:
            yield SqliteDecision(connection, session_id)

    def counter(self) -> SqliteCounter:
        """Return the counter in the file; see `OffersCounter`."""
        return self._counter

    def key_of(self, decision_id: str) -> str:
        """Return the key that workspaces note of a decision."""
        self.file.open()
        return f"sessions:{self._identity}:{decision_id}:{self.database}"

    def decided(self, key: str) -> bool | None:
        """Tell whether the decision of a key was made; None if another store made it."""
        kind, _, rest = key.partition(":")
        identity, _, rest = rest.partition(":")
        decision_id = rest.partition(":")[0]
        query = (
            "SELECT 1 FROM toolstile_sessions WHERE decision_id = ? UNION ALL "
            "SELECT 1 FROM toolstile_decisions WHERE decision_id = ?"
        )
        # Its caller may have been interrupted while it waited for the commit.
        self.file.finish_group()
        found = bool(self.file.read(query, decision_id, decision_id))
        return found if (kind, identity) == ("sessions", self._identity) else None

    def _remove(self, transaction: sqlite3.Connection, session_id: str, number: int) -> int:
        transaction.execute(_KEEP_IDS, (session_id, number))
        return super()._remove(transaction, session_id, number)

    def _identify(self, connection: sqlite3.Connection) -> None:
        # The identity of the sessions in a file, made with their tables.
        tables = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_sessions_about'"
        if not connection.execute(tables).fetchone():
            connection.executescript(_TABLES.format(identity=uuid4().hex, version=_VERSION))
        if (fault := fault_of_version(connection)) is not None:
            raise StateError(" ".join(fault))
        (identity,) = connection.execute("SELECT identity FROM toolstile_sessions_about").fetchone()
        self._identity = str(identity)


class SqliteDecision(SqlDecision):
    """An open decision in a file; see `OpenDecision`."""

    def append(self, entry: Entry) -> None:
        """Record an entry."""
        number, decision_id, epoch, changes, has_files = entry
        now = datetime.now(UTC).timestamp()
        row = (self._session_id, number, decision_id, epoch, changes, int(has_files), now)
        self.transaction.execute(_APPEND, row)


def fault_of_version(connection: sqlite3.Connection) -> tuple[str, str] | None:
    """Return why the sessions in a database cannot be used, and a remedy; None if they can."""
    tables = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_sessions_about'"
    if not connection.execute(tables).fetchone():
        return None
    (version,) = connection.execute("SELECT version FROM toolstile_sessions_about").fetchone()
    if version == _VERSION:
        return None
    fault = (
        f"The stored sessions are of version {version}, which this Toolstile does not know (it "
        f"knows {_VERSION})."
    )
    return fault, "Use the Toolstile that wrote them, or another file."


# --- Counters


_COUNTED: Final = "SELECT 1 FROM toolstile_counts WHERE id = ? AND until > ?"
# If a clock was set back by more than a window, earlier reservations do not count.
_COUNTS: Final = "FROM toolstile_counts WHERE key = ? AND until > ? AND at - (until - at) <= ?"
_SUM: Final = f"SELECT coalesce(sum(amount), 0) {_COUNTS}"
_AMOUNTS: Final = f"SELECT amount, until {_COUNTS}"
_SETTLE: Final = "UPDATE toolstile_counts SET amount = ? WHERE id = ?"
_GIVE_BACK: Final = "DELETE FROM toolstile_counts WHERE id = ?"


class SqlCounter(SqlTables, BaseCounter):
    """A `Counter` in the database of a store of sessions; the statements suit both databases.

    Within an open decision of the thread it counts in that transaction, else in a new one.
    """

    def __init__(self, database: Any, store: SessionStore) -> None:
        super().__init__(database)
        self.store = store

    def settle(self, id: str, amount: float) -> None:  # noqa: A002 - it is the id
        """Set the final amount of a reservation, 0 to release it; an unknown id has expired."""
        check_amount(amount)
        if not self._is_made():
            return
        if amount:
            self._database.change(_SETTLE, self._written(amount), id)
        else:
            self._database.change(_GIVE_BACK, id)

    def read(self, key: str, *, now: datetime) -> float:
        """Return the sum of the reservations of a key."""
        if not self._is_made():
            return 0
        at = now.timestamp()
        return self._number(self._database.read(_SUM, key, at, at)[0][0])

    def _has(self, place: Any, id_: str, at: float) -> bool:
        return bool(place.execute(_COUNTED, (id_, at)).fetchall())

    def _counting(self, place: Any, key: str, at: float) -> list[tuple[float, float]]:
        rows = place.execute(_AMOUNTS, (key, at, at)).fetchall()
        return [(self._number(amount), until) for amount, until in rows]

    def _is_made(self) -> bool:
        return True

    def _written(self, amount: float) -> Any:
        return amount

    def _number(self, amount: Any) -> float:
        number: float = amount
        return number


# Because the column has no type, whole numbers stay whole numbers in sums.
_COUNT_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS toolstile_counts (
        id TEXT NOT NULL PRIMARY KEY, key TEXT NOT NULL, amount NOT NULL, at REAL NOT NULL,
        until REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS toolstile_counts_by_key ON toolstile_counts (key, until)",
    "CREATE INDEX IF NOT EXISTS toolstile_counts_by_end ON toolstile_counts (until)",
)
_HAS_COUNTS: Final = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_counts'"
_EXPIRE: Final = "DELETE FROM toolstile_counts WHERE until <= ?"
_KEEP: Final = "INSERT OR IGNORE INTO toolstile_counts VALUES (?, ?, ?, ?, ?)"


class SqliteCounter(SqlCounter):
    """A `Counter` in the file of a `SqliteSessions`; see `SqlCounter`."""

    def __init__(self, store: SqliteSessions) -> None:
        super().__init__(store.file, store)

    @contextmanager
    def _alone(self, key: str) -> Generator[sqlite3.Connection]:  # noqa: ARG002 - alone in the file
        with self._database.writing() as connection:
            # Each time, because the transaction that made the tables may have been rolled back.
            if not self._is_made():
                for table in _COUNT_TABLES:
                    connection.execute(table)
            yield connection

    def _keep(self, place: sqlite3.Connection, held: Held) -> bool:
        place.execute(_EXPIRE, (held.at,))
        return place.execute(_KEEP, held).rowcount > 0

    def _is_made(self) -> bool:
        return bool(self._database.read(_HAS_COUNTS))
