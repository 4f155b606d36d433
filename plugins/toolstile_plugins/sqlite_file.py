"""SQLite files that the processes of one machine share, opened alike by every plugin."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol
from weakref import WeakSet, WeakValueDictionary

from toolstile_hookspecs import Diagnostic, Durability, Severity, StateError
from toolstile_hookspecs.support.process import deferred_interrupts, renewed_in_forks
from toolstile_plugins.directories import file_finding, make_directory_of

BUSY: Final = 10.0
"""Seconds for which a statement waits while other processes write."""
FORK_PATIENCE: Final = 15.0
"""Seconds for which a fork waits for a statement; a signal handler may fork within one."""
MOST_IN_GROUP: Final = 64
"""The most callers that share a commit, because more would wait too long."""
_MOMENT: Final = 0.2
"""Seconds after which a caller that waits for a commit makes it."""
_MODE: Final = 0o600
"""The mode of a file, because its content is private to the user."""


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

    It is made, with the directories above. `durability` decides whether a commit waits for the
    disk. `check` raises if the file is another program's, before anything in it changes.
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
    """Switch a new file to WAL mode, also while others do so, for which SQLite does not wait."""
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


class _Group:
    """The callers whose changes one commit keeps."""

    def __init__(self) -> None:
        self.size = 0
        self.error: BaseException | None = None
        self.is_over = False
        # One item for each caller: an interrupted one may leave its own.
        self.ends = SimpleQueue[None]()


class _Writer:
    """The one connection of this process that writes to a file.

    It does group commit, because each commit may wait for the disk: a caller leaves its changes in
    the open transaction while others are queued, and the last of them commits for all.
    """

    def __init__(self, path: Path, durability: Durability) -> None:
        self._path = path
        self._durability: Durability = durability
        self._lock = threading.Lock()
        self._line: set[int] = set()
        self._group: _Group | None = None
        self._connection: sqlite3.Connection | None = None
        self.thread: int | None = None
        # Set after an error, because a connection may keep a state that SQLite noticed once.
        self.is_stale = False
        self.users = WeakSet[SqliteFile]()
        close_around_forks(self)

    @contextmanager
    def changing(self) -> Generator[sqlite3.Connection]:
        """Run the block alone in the file; its changes are kept when this returns."""
        thread = threading.get_ident()
        self._line.add(thread)
        try:
            with self._lock:
                self._line.discard(thread)
                group = self._group = self._group or _Group()
                try:
                    connection = self._begin(group)
                    self.thread = thread
                    yield connection
                    if group.size:
                        connection.execute("RELEASE caller")
                    group.size += 1
                except BaseException as error:
                    self._undo(group, error)
                    raise
                finally:
                    self.thread = None
                    if group is self._group and (not self._line or group.size == MOST_IN_GROUP):
                        self._commit(group)
        finally:
            self._line.discard(thread)
        if not group.is_over:
            try:
                group.ends.get(timeout=_MOMENT)
            except Empty:
                # The last caller in line was interrupted, or takes long.
                with self._lock:
                    if not group.is_over:
                        self._commit(group)
        if group.error is not None:
            raise group.error

    def change(self, statement: str, values: Sequence[Any]) -> int:
        if not self._line and not self._lock.locked():
            with self._lock:
                connection = None if self.is_stale else self._connection
                if self._group is None and connection is not None:
                    # It commits by itself, because no other caller shares the commit.
                    return connection.execute(statement, values).rowcount
        with self.changing() as connection:
            return connection.execute(statement, values).rowcount

    def nested(self) -> sqlite3.Connection | None:
        """Return the connection of a transaction that is open on this thread, else None."""
        return self._connection if self.thread == threading.get_ident() else None

    def _begin(self, group: _Group) -> sqlite3.Connection:
        if self.is_stale and not group.size:
            self.is_stale = False
            self._drop()
        if self._connection is None:
            self._connection = connected(self._path, self._durability, lambda _: None)
        # Within the first caller's transaction, the others can be undone by themselves.
        self._connection.execute("SAVEPOINT caller" if group.size else "BEGIN IMMEDIATE")
        return self._connection

    def _undo(self, group: _Group, fault: BaseException) -> None:
        if group.size and self._connection is not None:
            try:
                self._connection.execute("ROLLBACK TO caller")
                self._connection.execute("RELEASE caller")
            except sqlite3.Error as error:
                if not self._connection.in_transaction:
                    # The transaction has gone whole, as on a full disk.
                    group.error = fault if isinstance(fault, sqlite3.Error) else error
                elif "no such savepoint" not in str(error):
                    group.error = error
            if group.error is None:
                # Undone, or interrupted before the savepoint, or after its changes were left.
                return
        # Closed, it undoes what is not committed: from then on others can tell.
        self._drop()
        self._end(group)

    def _commit(self, group: _Group) -> None:
        assert self._connection is not None  # noqa: S101 - the group has begun
        try:
            self._connection.commit()
        except BaseException as error:
            # An interruption may have come after it.
            if isinstance(error, sqlite3.Error) or self._connection.in_transaction:
                group.error = sqlite3.OperationalError(str(error) or "its commit was interrupted")
                self._drop()
            if not isinstance(error, sqlite3.Error):
                raise
        finally:
            self._end(group)

    def _end(self, group: _Group) -> None:
        self._group = None
        group.is_over = True
        for _ in range(group.size):
            group.ends.put(None)

    def finish_group(self) -> None:
        with self._lock:
            if self._group is not None:
                self._commit(self._group)

    def close(self) -> None:
        with self._lock:
            self._shut()

    def close_for_fork(self) -> bool:
        is_held = self._lock.acquire(timeout=FORK_PATIENCE)
        if is_held:
            self._shut()
        return is_held

    def reopen_after_fork(self) -> None:
        self._lock.release()

    def _shut(self) -> None:
        if self._group is not None:
            self._commit(self._group)
        self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


_writers: Final = WeakValueDictionary[tuple[int, str, Durability], _Writer]()
_finding = renewed_in_forks(__name__, "_finding", threading.RLock)


class SqliteFile:
    """A file with a connection that reads, and the one connection of the process that writes.

    So reading never waits for a transaction. A query within a transaction, on the same thread, is
    part of it. The file must be on a disk of this machine. `title` names its content in messages,
    such as `stored sessions`; `prepare` makes the tables on a new connection; for the rest see
    `connected`. Every method raises `StateError` if the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        durability: Durability,
        title: str,
        prepare: Callable[[sqlite3.Connection], object],
        *,
        check: Callable[[sqlite3.Connection], object] = bool,
    ) -> None:
        # A process may change its working directory between two openings.
        self.path = path.absolute()
        self._durability: Durability = durability
        self._title = title
        self._prepare = prepare
        self._check = check
        self._reading = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: _Writer | None = None
        self._process: int | None = None
        close_around_forks(self)

    @property
    def database(self) -> str:
        """The file, by the name that every plugin with tables in it uses."""
        return str(self.path)

    def read(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        try:
            writer = self._writer
            if writer is not None and (connection := writer.nested()) is not None:
                return connection.execute(query, values).fetchall()
            if self._process not in (None, os.getpid()):
                raise StateError(
                    f"The {self._title} in {self.path} cannot be used: its file was opened before "
                    "this process was forked. Make a Host in the child."
                )
            with self._reading:
                return self._opened().execute(query, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise self._explained(error) from error

    def change(self, statement: str, *values: Any) -> int:
        """Run one statement, kept when this returns; it gives the number of changed rows."""
        writer = self._writer_here()
        try:
            if (connection := writer.nested()) is not None:
                return connection.execute(statement, values).rowcount
            return writer.change(statement, values)
        except (sqlite3.Error, OSError) as error:
            raise self._explained(error) from error

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Run the block in a transaction, alone in the file; it is kept when this returns."""
        writer, is_begun = self._writer_here(), False
        try:
            if (connection := writer.nested()) is not None:
                yield connection
                return
            with deferred_interrupts(), writer.changing() as connection:
                is_begun = True
                yield connection
        except (sqlite3.Error, OSError) as error:
            if is_begun and isinstance(error, OSError):
                raise
            raise self._explained(error) from error

    def finish_group(self) -> None:
        """Commit the changes that callers of this process have left in the open transaction."""
        if (writer := self._writer) is not None and writer.nested() is None:
            writer.finish_group()

    def open(self) -> None:
        """Open the file, so that its tables are there."""
        self.read("SELECT 1")

    def close(self) -> None:
        """Close the file; the next use opens it again. A fork leaves its parent's open."""
        if self._process == os.getpid():
            with self._reading:
                self._drop()
                self._process = None
                writer, self._writer = self._writer, None
            if writer is not None:
                writer.users.discard(self)
                if not writer.users:
                    writer.close()

    def _opened(self) -> sqlite3.Connection:
        if self._reader is None:
            reader = connected(self.path, self._durability, self._check)
            try:
                self._prepare(reader)
            except BaseException:
                reader.close()
                raise
            self._process = os.getpid()
            key = self._process, os.path.realpath(self.path), self._durability
            with _finding:
                writer = _writers.get(key) or _Writer(self.path, self._durability)
                _writers[key] = self._writer = writer
            writer.users.add(self)
            self._reader = reader
        return self._reader

    def _writer_here(self) -> _Writer:
        if self._reader is None or self._process != os.getpid():
            self.open()
        while (writer := self._writer) is None:
            # Another thread has closed the file meanwhile.
            self.open()
        return writer

    def _drop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with suppress(sqlite3.Error):
                reader.close()

    def _explained(self, error: Exception) -> StateError:
        with self._reading:
            self._drop()
            if self._writer is not None:
                self._writer.is_stale = True
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if self.path.is_dir():
            reason = "it is a directory"
        remedy = "Fix that, or name another file"
        if isinstance(error, sqlite3.DataError):
            # An id may be of a user's request.
            remedy = "Leave lone surrogates out of ids and keys"
        for part, cure in _REMEDIES:
            if part in reason.lower():
                remedy = cure
                break
        return StateError(
            f"The {self._title} in {self.path} cannot be used: {reason}. {remedy}, then retry."
        )

    def close_for_fork(self) -> bool:
        """Close the file and keep others from opening it until `reopen_after_fork`."""
        is_held = self._reading.acquire(timeout=FORK_PATIENCE)
        if is_held:
            self._drop()
        return is_held

    def reopen_after_fork(self) -> None:
        """Let others open the file again."""
        self._reading.release()


class SqlTables:
    """The base of stores with tables in a `SqliteFile` or a `PostgresDatabase`."""

    waits = True

    def __init__(self, database: Any) -> None:
        self._database = database

    @property
    def database(self) -> str:
        """The file or address, by the name that all stores in the database have for it."""
        return str(self._database.database)

    def close(self) -> None:
        """Close the database; the next use opens it again. A fork leaves its parent's open."""
        self._database.close()


_MAY_WRITE: Final = "Let this process write to the file and its directory"
_ANOTHER: Final = "It is damaged, or another program's: name another file, or put a copy back"
_REMEDIES: Final = (
    ("it is a directory", "Configure the path of a file"),
    ("not a database", _ANOTHER),
    ("no such table", _ANOTHER),
    ("no column", _ANOTHER),
    ("no such column", _ANOTHER),
    ("malformed", "It is damaged: put a copy back, or move it away, and it is forgotten"),
    ("full", "Make room on the disk"),
    ("i/o", "Look at the disk, which may be full"),
    ("readonly", _MAY_WRITE),
    ("permission", _MAY_WRITE),
    ("unable to open", _MAY_WRITE),
    ("locked", "Find out which process, or other connection of this one, locks it"),
)
"""Parts of SQLite's messages, in small letters, and the remedies."""


# --- toolstile doctor


def database_finding(
    file: Path, role: str, fault_of: Callable[[sqlite3.Connection], tuple[str, str] | None]
) -> Diagnostic:
    """Return whether a SQLite file can be used and written, or made; nothing is changed.

    `fault_of` returns why its content cannot be used, and a remedy; None if it can.
    """
    found = file_finding(file, role)
    if found.severity is not Severity.OK or not file.exists():
        return found
    try:
        # Only begins to write, because a finding changes nothing.
        uri = f"{file.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=1)) as connection:
            if (fault := fault_of(connection)) is not None:
                return Diagnostic.error(found.subject, *fault)
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
    except sqlite3.OperationalError as error:
        told = f"It cannot be written now ({error})."
        remedy = "Find the process that has it open, and check the room on the disk."
        return Diagnostic.warning(found.subject, told, remedy)
    except sqlite3.DatabaseError as error:
        remedy = "Move it away, or configure another path."
        return Diagnostic.error(found.subject, f"It is not a database ({error}).", remedy)
    return found


# --- Forks


class ClosedForForks(Protocol):
    """A user of a file that is closed around each fork."""

    def close_for_fork(self) -> bool:
        """Close the file, and keep others from opening it; False if that takes too long."""
        ...

    def reopen_after_fork(self) -> None:
        """Let others open the file again."""


_open: Final = WeakSet[ClosedForForks]()
_closed: Final = threading.local()


def close_around_forks(user: ClosedForForks) -> None:
    """Close a file before each fork, because the child's SQLite would rely on the parent's locks.

    A Host in the child would then open the same file without locks of its own. Its writes would
    be lost when the parent closes the file.
    """
    with _finding:
        _open.add(user)


def _close_all() -> None:
    # Writers first: within a transaction, a caller may need the reader of a file.
    with _finding:
        users = sorted(_open, key=lambda user: not isinstance(user, _Writer))
    _closed.users = [user for user in users if user.close_for_fork()]


def _reopen_all() -> None:
    for user in _closed.users:
        user.reopen_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_all, after_in_parent=_reopen_all, after_in_child=_reopen_all)
