"""A ledger's entries in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import Durability, LedgerError
from toolstile_hookspecs.services.ledger import EffectState, RecordedResult
from toolstile_plugins.leases import Process, monotonic
from toolstile_plugins.ledger.stores.sql import (
    FINISH,
    OPEN,
    TABLE,
    Done,
    Row,
    SqlStore,
    finished,
)
from toolstile_plugins.sqlite_file import SqliteFile

VERSION: Final = 1
_OURS: Final = ("toolstile_", "sqlite_")
"""The beginnings of the names of our tables, and of tables that SQLite makes."""
_SPENT: Final = "spent"
"""The table of used approvals, which a host may make in the file before the ledger."""
_TABLE: Final = TABLE.format(integer="INTEGER", bytes="BLOB", flag="INTEGER", lease="REAL")
# `OR IGNORE`, because `ON CONFLICT` needs SQLite 3.24.
_ON_CONFLICT: Final = " ON CONFLICT (key) DO NOTHING"
_INTO: Final = ("INSERT INTO", "INSERT OR IGNORE INTO")


class SqliteStore(SqlStore):
    """Entries in a file, in WAL mode, in which readers and a writer do not block one another.

    A claim lasts as long as its process lives. If that is unknown, as in another container, the
    lease counts, by the monotonic clock of the machine. The file must be on a disk of this machine.

    Args:
        path: The file; the first use makes it, and the directories above.
        durability: `power` waits for the disk twice a call; see `Durability`.
        lease: Seconds after which a claim lapses that is not renewed.
    """

    waits = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        lease: float = 30.0,
    ) -> None:
        super().__init__()
        self._insert = self._insert.replace(*_INTO).removesuffix(_ON_CONFLICT)
        self.path = Path(path)
        self.lease: float | None = lease
        self._file = SqliteFile(
            self.path,
            durability,
            "ledger",
            _prepare,
            check=partial(_check_usable, file=self.path),
            fault=LedgerError,
        )

    @property
    def database(self) -> str:
        """The file, as a session store in it names it, too."""
        return self._file.database

    def finish_within(  # noqa: PLR0913 - the protocol's
        self,
        connection: sqlite3.Connection,
        key: str,
        effect_id: str,
        result: RecordedResult,
        expires_at: datetime | None,
        *,
        refusal: Exception | None = None,  # noqa: ARG002 - the answer is there at once
    ) -> bool:
        """Record a result in a transaction of a session store, open in the same file."""
        values = finished(key, effect_id, result, expires_at)
        return connection.execute(FINISH, values).rowcount > 0

    def take_over(self, path: Path) -> int:
        """Move the entries of another file here, and return their number; entries here stay.

        Raises:
            LedgerError: A call of the other file is running.
        """
        old = SqliteStore(path, lease=self.lease or 0.0)
        try:
            if any(entry.state is EffectState.CLAIMED for entry in old.entries()):
                raise LedgerError(
                    f"A host runs a call that is recorded in {path}. Stop the host, then retry."
                )
            # On the reader, because a writer cannot attach a file within its transaction.
            run = self._file.read
            run("ATTACH ? AS other", str(path))
            try:
                # Two transactions, because SQLite commits to one file first, and none may lose.
                run(
                    "INSERT OR IGNORE INTO main.toolstile_effects SELECT * "
                    "FROM other.toolstile_effects"
                )
                ((taken,),) = run("SELECT changes()")
                run("DELETE FROM other.toolstile_effects")
            finally:
                run("DETACH other")
        finally:
            old.close()
        return int(taken)

    def close(self) -> None:
        """Close the file; the next use opens it again. A fork leaves its parent's open."""
        self._file.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Done:
        if statement.startswith("SELECT"):
            return Done(self._file.read(statement, *values), 0)
        return Done((), self._file.change(statement, *values))

    def _owner(self) -> str:
        return str(Process.current())

    def _lease_values(self, seconds: float | None = None) -> tuple[Any, ...]:
        assert self.lease is not None  # noqa: S101 - set by the constructor
        return (monotonic() + (self.lease if seconds is None else seconds),)

    def _is_lapsed(self, row: Row) -> bool:
        owner, lease = row[15], row[16]
        # An unknown effect has no owner until a reconciler holds it.
        lives = Process.read(owner).lives() if owner else None
        if lives is not None:
            return not lives
        assert self.lease is not None  # noqa: S101 - set by the constructor
        # A lease that ends later than any new lease is of an earlier boot.
        now = monotonic()
        return not now < lease <= now + max(self.lease, 3600.0)


def _prepare(connection: sqlite3.Connection) -> None:
    if _version_of(connection) != VERSION:
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute(OPEN)


class Unusable(NamedTuple):
    """Why a database cannot be used as a ledger."""

    reason: str
    remedy: str


def why_unusable(connection: sqlite3.Connection) -> Unusable | None:
    """Return why a database cannot be a ledger of this Toolstile, or None; changes nothing.

    Raises:
        sqlite3.Error: The database cannot be read.
    """
    version = _version_of(connection)
    if version not in (0, VERSION):
        return Unusable(
            f"is of version {version}, which this Toolstile does not know (it knows {VERSION})",
            "Use the Toolstile that wrote it, or another file.",
        )
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    foreign = [name for name in tables - {_SPENT} if not name.startswith(_OURS)]
    if "toolstile_effects" in tables or not (foreign or version):
        return None
    return Unusable("is not a ledger, but a database of something else", "Name another file.")


def _version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _check_usable(connection: sqlite3.Connection, file: Path) -> None:
    """Raise `LedgerError` if the file is no ledger, before anything in it changes."""
    unusable = why_unusable(connection)
    if unusable is not None:
        raise LedgerError(
            f"The ledger {file} cannot be used: it {unusable.reason}. {unusable.remedy}"
        )
