"""Questions in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import Durability, StateError
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
{{}};
COMMIT;
"""
_OWN_VERSION: Final = f"PRAGMA user_version = {_VERSION}"
_SHARED_VERSION: Final = f"""
CREATE TABLE IF NOT EXISTS toolstile_approvals_about (version INTEGER NOT NULL);
INSERT INTO toolstile_approvals_about SELECT {_VERSION}
    WHERE NOT EXISTS (SELECT 1 FROM toolstile_approvals_about)
"""  # noqa: S608 - our own statements


class SqliteApprovals(SqlApprovals):
    """Questions in a file, in WAL mode.

    Args:
        path: The file; made, with the directories above, when it is first needed.
        shared: Whether stored sessions are in the file, too.
        durability: Whether an answer waits for the disk; see `Durability`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        shared: bool = False,
        durability: Durability = "power",
    ) -> None:
        prepare = _prepare_shared if shared else _prepare
        file = SqliteFile(Path(path), durability, "questions", prepare)
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
    _refuse_newer(version)
    if version < _VERSION:
        connection.executescript(_TABLES.format(_OWN_VERSION))


def _prepare_shared(connection: sqlite3.Connection) -> None:
    """Make the tables in a file of sessions, whose `user_version` is the ledger's."""
    about = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_approvals_about'"
    if not connection.execute(about).fetchone():
        connection.executescript(_TABLES.format(_SHARED_VERSION))
    ((version,),) = connection.execute("SELECT version FROM toolstile_approvals_about")
    _refuse_newer(version)


def _refuse_newer(version: int) -> None:
    if version > _VERSION:
        raise StateError(
            f"The questions are of version {version}, which this Toolstile does not know (it knows "
            f"{_VERSION}). Use the Toolstile that wrote them, or another file."
        )
