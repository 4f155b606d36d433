"""Questions in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import StateError
from toolstile_plugins.inbox.sql import SqlApprovals
from toolstile_plugins.sqlite_file import SqliteFile

_VERSION: Final = 3
_TABLES: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS toolstile_questions (
    number INTEGER PRIMARY KEY,
    ticket TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL,
    state TEXT NOT NULL,
    question TEXT NOT NULL,
    sealed BLOB NOT NULL,
    answer TEXT,
    proof BLOB,
    holder TEXT,
    held_until REAL
);
CREATE INDEX IF NOT EXISTS toolstile_questions_by_state ON toolstile_questions (state, created);
CREATE INDEX IF NOT EXISTS toolstile_questions_by_end ON toolstile_questions (expires);
CREATE TABLE IF NOT EXISTS toolstile_grants (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    expires REAL NOT NULL,
    sealed BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS toolstile_events (
    number INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    expiry_of TEXT UNIQUE,
    due REAL NOT NULL,
    sealed BLOB NOT NULL,
    told_record INTEGER NOT NULL DEFAULT 0,
    told_session INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS toolstile_events_by_time ON toolstile_events (due, number);
CREATE INDEX IF NOT EXISTS toolstile_events_to_record
    ON toolstile_events (due, number) WHERE NOT told_record;
CREATE INDEX IF NOT EXISTS toolstile_events_to_session
    ON toolstile_events (session_id, due, number) WHERE NOT told_session;
PRAGMA user_version = {_VERSION};
COMMIT;
"""


class SqliteApprovals(SqlApprovals):
    """Questions in a file of their own, in WAL mode.

    Args:
        path: The file; made, with the directories above, when it is first needed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = SqliteFile(Path(path), "full", "questions", _prepare)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._file.close()

    def _read(self, select: str, *values: Any) -> list[Any]:
        # A look does not make the file.
        return self._file.read(select, *values) if self._file.path.exists() else []

    def _writing(self) -> AbstractContextManager[Any]:
        return self._file.writing()

    def _altered(self) -> tuple[str, str]:
        return str(self._file.path), "Move the file away"


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables.

    Raises:
        StateError: The file is of another version.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise StateError(
            f"The questions are of version {version}, which this Toolstile does not know (it knows "
            f"{_VERSION}). Use the Toolstile that wrote them, or another file."
        )
    if version < _VERSION:
        connection.executescript(_TABLES)
