"""Stored sessions in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from toolstile_hookspecs import Durability, StateError
from toolstile_hookspecs.services.session_store import Entry, SessionInfo
from toolstile_plugins.sessions.counter import Held, SqlCounter
from toolstile_plugins.sqlite_file import SqliteFile

DELETED: Final = (
    "The stored session {session} was deleted meanwhile, so nothing can be added to it. Close "
    "every host that has it open, then start a new session."
)
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
_AFTER: Final = (
    "SELECT number, decision_id, epoch, changes, has_files FROM toolstile_sessions "
    "WHERE session_id = ? AND number > ? ORDER BY number"
)
_KEEP_IDS: Final = (
    "INSERT OR IGNORE INTO toolstile_decisions "
    "SELECT decision_id FROM toolstile_sessions WHERE session_id = ? AND number <= ?"
)
_REMOVE: Final = "DELETE FROM toolstile_sessions WHERE session_id = ? AND number <= ?"
_APPEND: Final = "INSERT INTO toolstile_sessions VALUES (?, ?, ?, ?, ?, ?, ?)"


class SqliteSessions:
    """The entries of sessions in a file, in WAL mode; a `SessionStore`.

    The file and its directories are made at the first use. By `durability`, a decision waits for
    the disk. A `SqliteCounter` counts within decisions through `file`.
    """

    waits = True

    def __init__(self, path: str | os.PathLike[str], *, durability: Durability = "power") -> None:
        self.path = Path(path)
        self.durability: Durability = durability
        self._identity = ""
        self.file = SqliteFile(self.path, durability, "stored sessions", self._identify)

    @property
    def database(self) -> str:
        """The file."""
        return self.file.database

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there are entries after a number."""
        query = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number > ? LIMIT 1"
        return bool(self.file.read(query, session_id, number))

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order."""
        return [_entry(row) for row in self.file.read(_AFTER, session_id, number)]

    @contextmanager
    def deciding(self, session_id: str) -> Generator[SqliteDecision]:
        """Open the transaction of a decision."""
        with self.file.writing() as connection:
            yield SqliteDecision(connection, session_id)

    def condense(self, session_id: str, whole: Entry) -> None:
        """Keep an entry with the whole state in place of those up to its number."""
        with self.file.writing() as connection:
            here = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number = ?"
            if connection.execute(here, (session_id, whole.number)).fetchone():
                connection.execute(_KEEP_IDS, (session_id, whole.number))
                connection.execute(_REMOVE, (session_id, whole.number))
                SqliteDecision(connection, session_id).append(whole)

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

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the stored sessions, the one changed last at the end."""
        query = (
            "SELECT session_id, max(number), max(decided_at) FROM toolstile_sessions "
            "GROUP BY session_id ORDER BY 3, 1"
        )
        return [
            SessionInfo(session_id, number, datetime.fromtimestamp(moment, UTC))
            for session_id, number, moment in self.file.read(query)
        ]

    def delete(self, session_id: str) -> bool:
        """Remove a session; the ids of its decisions stay known."""
        with self.file.writing() as connection:
            newest = "SELECT max(number) FROM toolstile_sessions WHERE session_id = ?"
            (number,) = connection.execute(newest, (session_id,)).fetchone()
            if number is None:
                return False
            connection.execute(_KEEP_IDS, (session_id, number))
            connection.execute(_REMOVE, (session_id, number))
            return True

    def close(self) -> None:
        """Close the file; the next use opens it again. A forked child leaves its parent's open."""
        self.file.close()

    def _identify(self, connection: sqlite3.Connection) -> None:
        # The identity of the sessions in a file, made with their tables.
        tables = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_sessions_about'"
        if not connection.execute(tables).fetchone():
            connection.executescript(_TABLES.format(identity=uuid4().hex, version=_VERSION))
        if (fault := fault_of_version(connection)) is not None:
            raise StateError(" ".join(fault))
        (identity,) = connection.execute("SELECT identity FROM toolstile_sessions_about").fetchone()
        self._identity = str(identity)


class SqliteDecision:
    """An open decision in a file; see `OpenDecision`."""

    def __init__(self, connection: sqlite3.Connection, session_id: str) -> None:
        self.connection = connection
        self._session_id = session_id

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order.

        Raises:
            StateError: The session was deleted, so no other host could follow this one.
        """
        # The newest entry is always there, condensed or not.
        found = self.connection.execute(_AFTER, (self._session_id, number - 1)).fetchall()
        if number and not found:
            raise StateError(DELETED.format(session=self._session_id))
        return [_entry(row) for row in found if row[0] > number]

    def append(self, entry: Entry) -> None:
        """Record an entry."""
        number, decision_id, epoch, changes, has_files = entry
        now = datetime.now(UTC).timestamp()
        row = (self._session_id, number, decision_id, epoch, changes, int(has_files), now)
        self.connection.execute(_APPEND, row)


def _entry(row: Sequence[Any]) -> Entry:
    number, decision_id, epoch, changes, has_files = row
    return Entry(number, decision_id, epoch, changes, bool(has_files))


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
