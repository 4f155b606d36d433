"""Stored sessions in a SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4
from weakref import WeakSet

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.session_store import Entry, SessionInfo
from toolstile_plugins.directories import make_directory_of

Synchronous = Literal["normal", "full"]

BUSY: Final = 10.0
"""Seconds for which a decision waits while other processes write."""
_MODE: Final = 0o600
"""The mode of the file: what sessions hold is private to the user."""
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

    One connection reads and one decides, so that a look never waits for a decision. The file must
    be on a disk of this machine.

    Args:
        path: The file; made, with the directories above, when it is first needed.
        synchronous: `normal` survives the death of every process; `full` also a loss of power.
    """

    waits = True

    def __init__(
        self, path: str | os.PathLike[str], *, synchronous: Synchronous = "normal"
    ) -> None:
        self.path = Path(path)
        self._synchronous = synchronous
        self._reading = threading.Lock()
        self._deciding = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._identity = ""
        self._process: int | None = None
        _open_stores.add(self)

    @property
    def database(self) -> str:
        """The file."""
        return str(self.path.absolute())

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there are entries after a number."""
        query = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number > ? LIMIT 1"
        return bool(self._read(query, session_id, number))

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order."""
        return [_entry(row) for row in self._read(_AFTER, session_id, number)]

    @contextmanager
    def deciding(self, session_id: str) -> Generator[SqliteDecision]:
        """Open the transaction of a decision."""
        with self._writing() as connection:
            yield SqliteDecision(connection, session_id)

    def condense(self, session_id: str, whole: Entry) -> None:
        """Keep an entry with the whole state in place of those up to its number."""
        with self._writing() as connection:
            here = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number = ?"
            if connection.execute(here, (session_id, whole.number)).fetchone():
                connection.execute(_KEEP_IDS, (session_id, whole.number))
                connection.execute(_REMOVE, (session_id, whole.number))
                SqliteDecision(connection, session_id).append(whole)

    def key_of(self, decision_id: str) -> str:
        """Return the key that workspaces note of a decision."""
        self._check_process()
        with self._reading:
            self._connection("_reader")
        return f"sessions:{self._identity}:{decision_id}:{self.database}"

    def decided(self, key: str) -> bool | None:
        """Tell whether the decision of a key was made; None where it is another store's."""
        kind, _, rest = key.partition(":")
        identity, _, rest = rest.partition(":")
        decision_id = rest.partition(":")[0]
        query = (
            "SELECT 1 FROM toolstile_sessions WHERE decision_id = ? UNION ALL "
            "SELECT 1 FROM toolstile_decisions WHERE decision_id = ?"
        )
        found = bool(self._read(query, decision_id, decision_id))
        return found if (kind, identity) == ("sessions", self._identity) else None

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the stored sessions, the one changed last at the end."""
        query = (
            "SELECT session_id, max(number), max(decided_at) FROM toolstile_sessions "
            "GROUP BY session_id ORDER BY 3, 1"
        )
        return [
            SessionInfo(session_id, number, datetime.fromtimestamp(moment, UTC))
            for session_id, number, moment in self._read(query)
        ]

    def delete(self, session_id: str) -> bool:
        """Remove a session; the ids of its decisions stay known."""
        with self._writing() as connection:
            newest = "SELECT max(number) FROM toolstile_sessions WHERE session_id = ?"
            (number,) = connection.execute(newest, (session_id,)).fetchone()
            if number is None:
                return False
            connection.execute(_KEEP_IDS, (session_id, number))
            connection.execute(_REMOVE, (session_id, number))
            return True

    def close(self) -> None:
        """Close the file; the next use opens it again. A forked child leaves its parent's open."""
        if self._process == os.getpid():
            with self._deciding, self._reading:
                self._shut()
                self._process = None

    def _read(self, query: str, *values: Any) -> list[Any]:
        self._check_process()
        with self._reading:
            try:
                return self._connection("_reader").execute(query, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                self._drop("_reader")
                raise self._explained(error) from error

    @contextmanager
    def _writing(self) -> Generator[sqlite3.Connection]:
        """Run the block in a transaction, alone in the file."""
        self._check_process()
        with self._deciding:
            try:
                connection = self._connection("_writer")
                connection.execute("BEGIN IMMEDIATE")
            except (sqlite3.Error, OSError) as error:
                self._drop("_writer")
                raise self._explained(error) from error
            try:
                yield connection
            except sqlite3.Error as error:
                self._drop("_writer")
                raise self._explained(error) from error
            except BaseException:
                connection.rollback()
                raise
            try:
                connection.commit()
            except sqlite3.Error as error:
                # Closed, it undoes what is not committed: from then on `decided` can tell.
                self._drop("_writer")
                raise self._explained(error) from error

    def _connection(self, role: Literal["_reader", "_writer"]) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self, role)
        if connection is None:
            connection = self._connect()
            setattr(self, role, connection)
            self._process = os.getpid()
        return connection

    def _connect(self) -> sqlite3.Connection:
        make_directory_of(self.path)
        is_new = not self.path.exists()
        connection = sqlite3.connect(
            self.path, timeout=BUSY, isolation_level=None, check_same_thread=False
        )
        try:
            if is_new and self.path.exists():
                # Before anything is in it; the files beside it get the same mode.
                self.path.chmod(_MODE)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            self._identity = _identity_in(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_process(self) -> None:
        if self._process not in (None, os.getpid()):
            raise StateError(
                "The stored sessions were opened before this process was forked, so they cannot be "
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
        return StateError(
            f"The stored sessions in {self.path} cannot be used: {reason}. See which process, or "
            "other connection of this one, holds the file, and whether its disk has room and this "
            "user may write there; then retry."
        )

    def hold_for_fork(self) -> None:
        """Close the file around a fork: the child must not believe in its parent's locks."""
        self._deciding.acquire()
        self._reading.acquire()
        self._shut()

    def release_after_fork(self) -> None:
        """Let others open the file again."""
        self._reading.release()
        self._deciding.release()


class SqliteDecision:
    """An open decision in a file; see `OpenDecision`."""

    def __init__(self, connection: sqlite3.Connection, session_id: str) -> None:
        self.connection = connection
        self._session_id = session_id

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order.

        Raises:
            StateError: The session was deleted: nobody else could follow the host that goes on.
        """
        # The newest entry is always there, condensed or not.
        found = self.connection.execute(_AFTER, (self._session_id, number - 1)).fetchall()
        if number and not found:
            raise StateError(
                f"The stored session {self._session_id} was deleted meanwhile, so nothing can be "
                "added to it. Close what has it open, and begin it anew."
            )
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
    """Return why the sessions in a database cannot be used, and a remedy; None where they can.

    It is only read.
    """
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


def _identity_in(connection: sqlite3.Connection) -> str:
    """Return the identity of the sessions in a file, made with their tables."""
    tables = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_sessions_about'"
    if not connection.execute(tables).fetchone():
        connection.executescript(_TABLES.format(identity=uuid4().hex, version=_VERSION))
    if (fault := fault_of_version(connection)) is not None:
        raise StateError(" ".join(fault))
    (identity,) = connection.execute("SELECT identity FROM toolstile_sessions_about").fetchone()
    return str(identity)


# --- Forks


_open_stores: Final = WeakSet[SqliteSessions]()
_held: Final = threading.local()


def _hold_all() -> None:
    _held.stores = list(_open_stores)
    for store in _held.stores:
        store.hold_for_fork()


def _release_all() -> None:
    for store in _held.stores:
        store.release_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)
