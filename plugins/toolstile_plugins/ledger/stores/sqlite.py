"""A ledger's entries in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from toolstile_hookspecs import ConfigurationError, Durability, LedgerError, ResourceResolver
from toolstile_hookspecs.services.ledger import EffectState, RecordedResult
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.leases import Process, monotonic
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.sql import FINISH, OPEN, TABLE, Row, SqlStore, finished
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

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        lease: float = 30.0,
    ) -> None:
        self.path = Path(path)
        check = partial(_check_usable, file=self.path)
        super().__init__(SqliteFile(self.path, durability, "ledger", _prepare, check=check), lease)
        self._insert = self._insert.replace(*_INTO).removesuffix(_ON_CONFLICT)

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
        with closing(SqliteStore(path, lease=self._seconds)) as old:
            if any(entry.state is EffectState.CLAIMED for entry in old.entries()):
                raise LedgerError(
                    f"A host runs a call that is recorded in {path}. Stop the host, then retry."
                )
            # On the reader, because a writer cannot attach a file within its transaction.
            run = self._read
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
        return int(taken)

    def _owner(self) -> str:
        return str(Process.current())

    def _lease_value(self, seconds: float | None = None) -> float:
        return monotonic() + (self._seconds if seconds is None else seconds)

    def _is_lapsed(self, row: Row) -> bool:
        owner, lease = row[15], row[16]
        # An unknown effect has no owner until a reconciler holds it.
        lives = Process.read(owner).lives() if owner else None
        if lives is not None:
            return not lives
        # A lease that ends later than any new lease is of an earlier boot.
        now = monotonic()
        return not now < lease <= now + max(self._seconds, 3600.0)


def file_store(
    settings: LedgerSettings, resources: ResourceResolver, now: datetime | None
) -> SqliteStore:
    """Return the store in the ledger's own file, or in the file of stored sessions.

    Args:
        settings: The settings.
        resources: The resources of the host, with the store of sessions.
        now: The time; None for a host that only looks.

    Raises:
        ConfigurationError: The ledger's own file has entries that still count, and stored
            sessions keep the ledger in another file.
    """
    file = settings.path
    sessions: SessionStore | None = resources.get(SessionStore, None)  # type: ignore[type-abstract]
    stored = getattr(sessions, "file", None)
    # Because a call of a stored session is decided once, its record is in the same file.
    if "path" not in settings.model_fields_set and isinstance(stored, SqliteFile):
        file = stored.path
        if now is not None and has_entries_left(settings.path, file, now):
            raise ConfigurationError(
                f"Stored sessions keep the ledger in {file}, and {settings.path} has entries "
                "that still count: their calls would run again. Stop the hosts that use it, "
                f'and run `toolstile ledger move`, or set path = "{settings.path}" in both '
                "[plugins.ledger] and [plugins.sessions]."
            )
    return SqliteStore(file, durability=settings.durability, lease=settings.lease)


def has_entries_left(own: Path, file: Path, now: datetime) -> bool:
    """Tell whether the ledger's own file has entries that still count, beside the file in use."""
    if not own.exists() or os.path.realpath(own) == os.path.realpath(file):
        return False
    with closing(SqliteStore(own)) as store:
        return any(
            each.expires_at is None or each.expires_at > now or each.state == "claimed"
            for each in store.entries()
        )


def _prepare(connection: sqlite3.Connection) -> None:
    if _version_of(connection) != VERSION:
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute(OPEN)


def fault_of(connection: sqlite3.Connection) -> tuple[str, str] | None:
    """Return why a database cannot be a ledger of this Toolstile, and a remedy; None if it can.

    Raises:
        sqlite3.Error: The database cannot be read.
    """
    version = _version_of(connection)
    if version not in (0, VERSION):
        told = (
            f"It is of version {version}, which this Toolstile does not know (it knows {VERSION})."
        )
        return told, "Use the Toolstile that wrote it, or another file."
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    foreign = [name for name in tables - {_SPENT} if not name.startswith(_OURS)]
    if "toolstile_effects" in tables or not (foreign or version):
        return None
    return "It is not a ledger, but a database of something else.", "Name another file."


def _version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _check_usable(connection: sqlite3.Connection, file: Path) -> None:
    """Raise `LedgerError` if the file is no ledger, before anything in it changes."""
    if (fault := fault_of(connection)) is not None:
        told = " ".join(fault).removeprefix("It")
        raise LedgerError(f"The ledger {file} cannot be used: it{told}")
