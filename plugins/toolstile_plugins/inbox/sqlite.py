"""Questions in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import StateError
from toolstile_plugins.inbox.sql import TABLES, SqlApprovals
from toolstile_plugins.sqlite_file import SqliteFile

_VERSION: Final = 3
_SQLITE: Final = {
    "new": "IF NOT EXISTS ",
    "number": "INTEGER PRIMARY KEY",
    "real": "REAL",
    "bytes": "BLOB",
    "flag": "INTEGER NOT NULL DEFAULT 0",
}
_TABLES: Final = f"""
BEGIN IMMEDIATE;
{TABLES.format(**_SQLITE)};
PRAGMA user_version = {_VERSION};
COMMIT;
"""


class SqliteApprovals(SqlApprovals):
    """Questions in a file of their own, in WAL mode.

    Args:
        path: The file; made, with the directories above, when it is first needed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        file = SqliteFile(Path(path), "power", "questions", _prepare)
        super().__init__(file, (str(file.path), "Move the file away"))

    def _read(self, select: str, *values: Any) -> list[Any]:
        # A look does not make the file.
        return super()._read(select, *values) if self._database.path.exists() else []


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
