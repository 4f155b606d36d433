"""Stored sessions in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from toolstile_hookspecs import Durability, StateError
from toolstile_hookspecs.services.session_store import Entry
from toolstile_plugins.sessions.counter import Held, SqlCounter
from toolstile_plugins.sessions.sql import SqlDecision, SqlSessions
from toolstile_plugins.sqlite_file import SqliteFile

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

    @contextmanager
    def deciding(self, session_id: str) -> Generator[SqliteDecision]:
        """Open the transaction of a decision."""
        with self.file.writing() as connection:
            yield SqliteDecision(connection, session_id)

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
