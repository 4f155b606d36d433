"""A ledger's entries in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import Durability, LedgerError
from toolstile_hookspecs.services.ledger import EffectState, RecordedResult
from toolstile_plugins.ledger.stores.process_identity import Process, monotonic
from toolstile_plugins.ledger.stores.sql import FINISH, OPEN, TABLE, Done, Row, SqlStore, finished
from toolstile_plugins.sqlite_file import FORK_PATIENCE, close_around_forks, connected

VERSION: Final = 1
_OURS: Final = ("toolstile_", "sqlite_")
"""The beginnings of our tables, of stored sessions, too, and of those that SQLite makes."""
_TABLE: Final = TABLE.format(integer="INTEGER", bytes="BLOB", flag="INTEGER", lease="REAL")
# What says the same came with SQLite 3.24; `OR IGNORE` has always been there.
_ON_CONFLICT: Final = " ON CONFLICT (key) DO NOTHING"
_INTO: Final = ("INSERT INTO", "INSERT OR IGNORE INTO")


class SqliteStore(SqlStore):
    """Entries in a file, in WAL mode: readers and a writer do not hinder one another.

    A claim is held as long as the process that made it lives. Where that is unknown, as in
    another container, the lease counts, by the machine's own clock, which cannot be set. The
    file must be on a disk of this machine.

    Args:
        path: The file; made, with the directories above, when it is first needed.
        durability: `power` waits for the disk twice a call; see `Durability`.
        lease: Seconds after which a claim that is not renewed counts as given up.
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
        self._durability: Durability = durability
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        close_around_forks(self)

    @property
    def database(self) -> str:
        """The file, as a session store in it names it, too."""
        return str(self.path.absolute())

    def finish_within(
        self,
        connection: sqlite3.Connection,
        key: str,
        effect_id: str,
        result: RecordedResult,
        expires_at: datetime | None,
    ) -> bool:
        """Record a result in a transaction of a session store, open in the same file."""
        values = finished(key, effect_id, result, expires_at)
        return connection.execute(FINISH, values).rowcount > 0

    def take_over(self, path: Path) -> int:
        """Move all entries of another file here, and return how many; one that is here stays.

        Raises:
            LedgerError: A call of the other file is running.
        """
        old = SqliteStore(path, lease=self.lease or 0.0)
        try:
            if any(entry.state is EffectState.CLAIMED for entry in old.entries()):
                raise LedgerError(
                    f"A host runs a call that is recorded in {path}. Stop the host, then retry."
                )
            self._run("ATTACH ? AS other", (str(path),))
            try:
                # Two transactions: SQLite commits to one file of two first, and neither may lose.
                taken = self._run(
                    "INSERT OR IGNORE INTO main.toolstile_effects SELECT * "
                    "FROM other.toolstile_effects"
                ).changed
                self._run("DELETE FROM other.toolstile_effects")
            finally:
                self._run("DETACH other")
        finally:
            old.close()
        return taken

    def close(self) -> None:
        """Close the file; the next use opens it again. A forked child leaves its parent's open."""
        if self._process == os.getpid():
            with self._lock:
                self._process = None
                self._shut()

    def close_for_fork(self) -> bool:
        """Close the file and keep others from opening it until `reopen_after_fork`."""
        is_held = self._lock.acquire(timeout=FORK_PATIENCE)
        if is_held:
            self._shut()
        return is_held

    def reopen_after_fork(self) -> None:
        """Let others open the file again."""
        self._lock.release()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Done:
        # First, as a thread that only the parent has may hold the lock.
        self._check_process()
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    self._process = os.getpid()
                cursor = self._connection.execute(statement, values)
                rows = cursor.fetchall() if cursor.description is not None else ()
                return Done(rows, cursor.rowcount)
            except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
                raise self._explained(error) from error

    def _shut(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        check = partial(_check_usable, file=self.path)
        connection = connected(self.path, self._durability, check)
        try:
            # Else a text that is damaged keeps all rows from being read.
            connection.text_factory = _lossless
            if _version_of(connection) != VERSION:
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute(OPEN)
        except BaseException:
            connection.close()
            raise
        return connection

    def _owner(self) -> str:
        return str(Process.current())

    def _lease_values(self, seconds: float | None = None) -> tuple[Any, ...]:
        assert self.lease is not None  # noqa: S101 - set by the constructor
        return (monotonic() + (self.lease if seconds is None else seconds),)

    def _is_lapsed(self, row: Row) -> bool:
        owner, lease = row[15], row[16]
        # Nobody's is what is unknown, until it is asked about.
        lives = Process.read(owner).lives() if owner else None
        if lives is not None:
            return not lives
        assert self.lease is not None  # noqa: S101 - set by the constructor
        # One that ends later than any that could be given now is of an earlier boot.
        now = monotonic()
        return not now < lease <= now + max(self.lease, 3600.0)

    def _explained(self, error: Exception) -> LedgerError:
        text = str(error)
        if isinstance(error, OSError):
            text = error.strerror or text
        remedy = "Fix that, or name another file, then retry."
        if self.path.is_dir():
            text = "it is a directory"
        for part, cure in _REMEDIES:
            if part in text.lower():
                remedy = cure
                break
        # What SQLite has noticed once, a connection may go on believing.
        self._shut()
        return LedgerError(f"The ledger {self.path} cannot be used: {text}. {remedy}")


def _lossless(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


_NO_LEDGER: Final = "It is not a ledger, or damaged: name another file, or put a copy back."
_REMEDIES: Final = (
    ("it is a directory", "Configure the path of a file, then retry."),
    ("not a database", _NO_LEDGER),
    ("no such table", _NO_LEDGER),
    ("no column", _NO_LEDGER),
    ("no such column", _NO_LEDGER),
    (
        "malformed",
        "It is damaged: put a copy back, or move it away, and its effects are forgotten.",
    ),
    ("full", "Make room on the disk, then retry."),
    ("i/o", "Look at the disk, which may be full, then retry."),
    ("readonly", "Let this process write to the file and its directory, then retry."),
    ("permission", "Let this process write to the file and its directory, then retry."),
    ("unable to open", "Let this process write to the file and its directory, then retry."),
    ("locked", "Find out which process, or other connection of this one, locks it, then retry."),
)


class Unusable(NamedTuple):
    """Why a database cannot be used as a ledger."""

    reason: str
    remedy: str


def why_unusable(connection: sqlite3.Connection) -> Unusable | None:
    """Return why a database cannot be a ledger of this Toolstile; None if it can. It is only read.

    Raises:
        sqlite3.Error: When it cannot be read.
    """
    version = _version_of(connection)
    if version not in (0, VERSION):
        return Unusable(
            f"is of version {version}, which this Toolstile does not know (it knows {VERSION})",
            "Use the Toolstile that wrote it, or another file.",
        )
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    foreign = [name for name in tables if not name.startswith(_OURS)]
    if "toolstile_effects" in tables or not (foreign or version):
        return None
    return Unusable("is not a ledger, but a database of something else", "Name another file.")


def _version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _check_usable(connection: sqlite3.Connection, file: Path) -> None:
    """Raise `LedgerError` where it is no ledger, which stays as it is."""
    unusable = why_unusable(connection)
    if unusable is not None:
        raise LedgerError(
            f"The ledger {file} cannot be used: it {unusable.reason}. {unusable.remedy}"
        )
