"""SQLite files that the processes of one machine share, opened alike by all that keep tables."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from weakref import WeakSet

from toolstile_hookspecs import Durability, StateError
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_plugins.directories import make_directory_of

BUSY: Final = 10.0
"""Seconds for which a statement waits while other processes write."""
FORK_PATIENCE: Final = 15.0
"""Seconds for which a fork waits for a statement; a signal handler may fork within one."""
_MODE: Final = 0o600
"""The mode of a file: what calls leave in it is private to the user."""


class _Connection(sqlite3.Connection):
    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        try:
            return super().execute(statement, values)
        except (UnicodeError, OverflowError) as error:
            raise sqlite3.DataError(str(error)) from error


def connected(
    path: Path, durability: Durability, check: Callable[[sqlite3.Connection], object]
) -> sqlite3.Connection:
    """Open a file in WAL mode, in which readers and a writer do not hinder one another.

    Args:
        path: The file; made, with the directories above.
        durability: Whether a commit waits for the disk; see `Durability`.
        check: Raises where the file is another's, before anything of it changes.
    """
    make_directory_of(path)
    is_new = not path.exists()
    connection = sqlite3.connect(
        path, timeout=BUSY, isolation_level=None, check_same_thread=False, factory=_Connection
    )
    try:
        if is_new and path.exists():
            # Before anything is in it; the files beside it get the same mode.
            path.chmod(_MODE)
        _switch_over(connection, check)
        mode = "FULL" if durability == "power" else "NORMAL"
        connection.execute(f"PRAGMA synchronous = {mode}")
    except BaseException:
        connection.close()
        raise
    return connection


def _switch_over(
    connection: sqlite3.Connection, check: Callable[[sqlite3.Connection], object]
) -> None:
    """Switch a new file over, also while others do so: SQLite itself does not wait for that."""
    until = time.monotonic() + BUSY
    while True:
        try:
            check(connection)
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(random.uniform(0.001, 0.01))  # noqa: S311 - no secret
        else:
            return


class SqliteFile:
    """A file with one connection that reads and one that writes.

    So a look never waits for a transaction. What is asked for within a transaction, on the same
    thread, is part of it. The file must be on a disk of this machine.

    Args:
        path: The file.
        durability: See `connected`.
        title: What is kept in it, for messages, such as `stored sessions`.
        prepare: Makes the tables, given each new connection.

    Every method raises `StateError` when the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        durability: Durability,
        title: str,
        prepare: Callable[[sqlite3.Connection], object],
    ) -> None:
        self.path = path
        self._durability: Durability = durability
        self._title = title
        self._prepare = prepare
        self._reading = threading.Lock()
        self._deciding = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._thread: int | None = None
        self._process: int | None = None
        close_around_forks(self)

    @property
    def database(self) -> str:
        """The file, as all name it that keep tables in it."""
        return str(self.path.absolute())

    def read(self, query: str, *values: Any) -> list[Any]:
        """Return what a query finds."""
        if self._thread == threading.get_ident():
            with self.writing() as connection:
                return connection.execute(query, values).fetchall()
        self._check_process()
        with self._reading:
            try:
                return self._connection("_reader").execute(query, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                self._drop("_reader")
                raise self._explained(error) from error

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Run the block in a transaction, alone in the file."""
        if self._thread == threading.get_ident() and self._writer is not None:
            with self._explaining():
                yield self._writer
            return
        self._check_process()
        with deferred_interrupts(), self._deciding:
            try:
                connection = self._connection("_writer")
                connection.execute("BEGIN IMMEDIATE")
                self._thread = threading.get_ident()
                yield connection
                connection.commit()
            except BaseException as error:
                # Closed, it undoes what is not committed: from then on others can tell.
                self._drop("_writer")
                if isinstance(error, sqlite3.Error if self._thread else (sqlite3.Error, OSError)):
                    raise self._explained(error) from error
                raise
            finally:
                self._thread = None

    def open(self) -> None:
        """Open the file, so that its tables are there."""
        self.read("SELECT 1")

    def close(self) -> None:
        """Close the file; the next use opens it again. A forked child leaves its parent's open."""
        if self._process == os.getpid():
            with self._deciding, self._reading:
                self._shut()
                self._process = None

    @contextmanager
    def _explaining(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _connection(self, role: Literal["_reader", "_writer"]) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self, role)
        if connection is None:
            connection = self._connect()
            setattr(self, role, connection)
            self._process = os.getpid()
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = connected(self.path, self._durability, lambda _: None)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_process(self) -> None:
        if self._process not in (None, os.getpid()):
            raise StateError(
                f"The {self._title} were opened before this process was forked, so they cannot be "
                "used here. Make a Host in the child."
            )

    def _drop(self, role: Literal["_reader", "_writer"]) -> None:
        connection: sqlite3.Connection | None = getattr(self, role)
        setattr(self, role, None)
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _shut(self) -> None:
        self._drop("_reader")
        self._drop("_writer")

    def _explained(self, error: Exception) -> StateError:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        remedy = (
            "See which process, or other connection of this one, holds the file, and whether its "
            "disk has room and this user may write there"
        )
        if isinstance(error, sqlite3.DataError):
            # An id may be of a user's request.
            remedy = "Leave lone surrogates out of ids and keys"
        return StateError(
            f"The {self._title} in {self.path} cannot be used: {reason}. {remedy}; then retry."
        )

    def close_for_fork(self) -> bool:
        """Close the file and keep others from opening it until `reopen_after_fork`."""
        if not self._deciding.acquire(timeout=FORK_PATIENCE):
            return False
        if not self._reading.acquire(timeout=FORK_PATIENCE):
            self._deciding.release()
            return False
        self._shut()
        return True

    def reopen_after_fork(self) -> None:
        """Let others open the file again."""
        self._reading.release()
        self._deciding.release()


# --- Forks


class ClosedForForks(Protocol):
    """A user of a file that is closed around each fork."""

    def close_for_fork(self) -> bool:
        """Close the file, and keep others from opening it; False where that takes too long."""
        ...

    def reopen_after_fork(self) -> None:
        """Let others open the file again."""


_open: Final = WeakSet[ClosedForForks]()
_closed: Final = threading.local()


def close_around_forks(user: ClosedForForks) -> None:
    """Have a file closed before each fork: the child's SQLite would believe in the parent's locks.

    A Host in the child would then open the same file without locks of its own. Its writes would
    be lost when the parent closes the file.
    """
    _open.add(user)


def _close_all() -> None:
    _closed.users = [user for user in list(_open) if user.close_for_fork()]


def _reopen_all() -> None:
    for user in _closed.users:
        user.reopen_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_all, after_in_parent=_reopen_all, after_in_child=_reopen_all)
