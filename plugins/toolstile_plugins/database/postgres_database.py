"""A PostgreSQL database that many hosts share; all stores with tables use this class."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

from toolstile_hookspecs import ConfigurationError, StateError, hide
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_plugins.cli_support import needing
from toolstile_plugins.database.schema import Part, Versions

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import (
        BoundedConnection as Connection,
        Statement,
        Transaction,
    )

T = TypeVar("T")

MINUTE: Final = 60.0
CONNECT: Final = 10
"""Seconds for connecting, and for a silent peer."""
NOT_A_URL: Final = (
    "{setting} is not a connection string of PostgreSQL. Write "
    "postgresql://USER:PASSWORD@HOST/NAME, with every character of the password that is neither "
    "letter nor digit percent-encoded, then retry."
)
_LOCK: Final = "SELECT pg_advisory_xact_lock(%s)"
_SET: Final = (
    "SELECT set_config('statement_timeout', '{0}', {2}), set_config('lock_timeout', '{1}', {2}), "
    "set_config('idle_in_transaction_session_timeout', '{1}', {2})"
)
_PORTS: Final = re.compile(r"[0-9,]*")
_UNREADY: Final = (
    "All {size} connections of this process to the {title} were in use for {patience:g} seconds. "
    "Raise plugins.database.pool_size, then retry."
)


def lock_of(purpose: str, name: str) -> int:
    """Return the number of a lock, for `PostgresDatabase.writing`.

    Two names of a purpose with the same number only wait for each other.

    Example:
        >>> lock_of("session", "a") == lock_of("session", "b")
        False
    """
    text = f"{purpose}:{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True)


class PostgresDatabase:
    """A database, with as many connections as threads use at once.

    Statements within a transaction, on the same thread, are part of the transaction. Every wait
    has a time limit. After a restart of the server, the next use connects again. Poolers of
    transactions work, because no state stays on a connection.

    Pool size and timeouts are those of `DatabaseSettings`. Messages name the contents of the
    database by `title`, and the setting of the url by `setting`. The attribute `database` is the
    address without user and secrets.

    Raises:
        ConfigurationError: The extra `postgres` is not installed, or the address is invalid.

    Every method raises `StateError` if the database cannot be used.
    """

    def __init__(  # noqa: PLR0913 - the settings
        self,
        url: str,
        *,
        pool_size: int = 8,
        statement_timeout: float = 15.0,
        lock_timeout: float = 10.0,
        title: str = "database",
        setting: str = "plugins.database.url",
    ) -> None:
        with needing(f"The {title} in PostgreSQL needs psycopg.", "postgres"):
            import psycopg  # late: only who uses it has it

            from toolstile_plugins.database import bounded_connection
        self._psycopg, self._driver = psycopg, bounded_connection
        self._url, self._title, self._setting = url, title, setting
        self._secrets, self._host, self.database = self._parsed(url)
        self._patience = statement_timeout + 5
        times = round(statement_timeout * 1000), round(lock_timeout * 1000)
        self._set, self._set_local = (_SET.format(*times, is_local) for is_local in (False, True))
        self._size = pool_size
        self._places = threading.BoundedSemaphore(pool_size)
        self._idle: list[Connection] = []
        self._here = threading.local()
        self._process: int | None = None
        self.versions = Versions()

    # --- for stores

    def require(self, part: Part) -> None:
        """Create the tables of a part before the first statement, if missing."""
        self.versions.require(part)

    def identity(self, part: Part) -> str:
        """Return the identity of the tables of a part, unique among databases."""
        self._check_parts()
        return self.versions.identities[part.name]

    def read(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        with self._sent(query, values) as statement:
            return statement.fetchall()

    def change(self, statement: str, *values: Any) -> int:
        """Run one statement, kept when this returns; it gives the number of changed rows."""
        with self._sent(statement, values) as sent:
            return sent.rowcount

    @contextmanager
    def _sent(self, query: str, values: Sequence[Any]) -> Generator[Statement]:
        self._check_parts()
        with self.explaining():
            if (within := self._open_here) is not None:
                yield within.execute(query, values)
                return
            statement = self._driver.Statement(query, values)
            with self._place():
                self._give_back(self._begun([statement]))
            yield statement

    @contextmanager
    def writing(self, lock: int | None = None) -> Generator[Transaction]:
        """Run the block in a transaction, begun at the first use; it holds `lock`, of `lock_of`."""
        self._check_parts()
        with self.explaining():
            if (within := self._open_here) is not None:
                if lock is not None:
                    within.execute(_LOCK, (lock,))
                yield within
                return
            with deferred_interrupts(), self._place():
                transaction = self._driver.Transaction(self._begun, self._set_local)
                if lock is not None:
                    transaction.execute(_LOCK, (lock,))
                try:
                    self._here.transaction = transaction
                    yield transaction
                    transaction.commit()
                finally:
                    self._here.transaction = None
                    if transaction.opened is not None:
                        self._give_back(transaction.opened)

    @contextmanager
    def apart(self) -> Generator[None]:
        """Run the block outside of an open transaction, as on another thread."""
        outer = {**vars(self._here)}
        vars(self._here).clear()
        try:
            yield
        finally:
            vars(self._here).update(outer)

    def open(self) -> None:
        """Connect, and create missing tables."""
        self.read("SELECT 1")

    def close(self) -> None:
        """Close the connections; the next use connects again. A child leaves its parent's open."""
        if self._process == os.getpid():
            self._process = None
            self._close_idle()

    # --- connections

    @property
    def _open_here(self) -> Transaction | None:
        return getattr(self._here, "transaction", None)

    def _begun(self, statements: Sequence[Statement]) -> Connection:
        """Execute the first statements on a connection, also after a restart of the server."""
        while True:
            try:
                connection = self._idle.pop()
                is_new = False
            except IndexError:
                connection, is_new = self.connect(), True
            try:
                connection.run(statements)
            except BaseException as error:
                was_lost = connection.closed and isinstance(error, self._psycopg.OperationalError)
                self._give_back(connection)
                if is_new or not was_lost:
                    raise
                # Because a restart closes all connections, the idle ones are lost, too.
                self._close_idle()
            else:
                return connection

    def _give_back(self, connection: Connection) -> None:
        connection.within = None
        status = self._psycopg.pq.TransactionStatus
        if connection.info.transaction_status in (status.INTRANS, status.INERROR):
            with suppress(self._psycopg.Error):
                connection.execute(b"ROLLBACK")
        if connection.info.transaction_status == status.IDLE and self._process == os.getpid():
            self._idle.append(connection)
        else:
            # Because the server rolls back the open transaction of a closed connection.
            connection.close()

    @contextmanager
    def _place(self) -> Generator[None]:
        self.check_process()
        if not self._places.acquire(timeout=self._patience):
            told = _UNREADY.format(size=self._size, title=self._title, patience=self._patience)
            raise StateError(told)
        try:
            yield
        finally:
            self._places.release()

    def connect(self) -> Connection:
        """Return a new connection, which the caller closes."""
        connection = self._driver.BoundedConnection.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT,
            application_name="toolstile",
            # Otherwise psycopg returns bytes if the database is not in UTF-8.
            client_encoding="utf-8",
            # Otherwise a lost peer is noticed only after the long timeout of the system.
            tcp_user_timeout=CONNECT * 1000,
            keepalives_idle=CONNECT,
        )
        connection.patience = self._patience
        try:
            if is_pooled(connection):
                # Because the next transaction may use a connection without prepared statements.
                connection.prepare_threshold = None
            else:
                # Because psycopg reads no other format of dates.
                connection.execute(f"{self._set}, set_config('datestyle', 'ISO', FALSE)".encode())
        except BaseException:
            connection.close()
            raise
        self._process = os.getpid()
        return connection

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def on_new_connection(self, work: Callable[[Connection], T]) -> T:
        """Return the result of some work on a connection that is only used for it."""
        self.check_process()
        with self.explaining():
            connection = self.connect()
            try:
                return work(connection)
            finally:
                connection.close()

    def _check_parts(self) -> None:
        # On a separate connection, because an open transaction may be rolled back with its tables.
        if not self.versions.are_checked:
            self.on_new_connection(self.versions.check)

    def check_process(self) -> None:
        """Raise `StateError` in a forked child, which must not use its parent's connections."""
        if self._process not in (None, os.getpid()):
            raise StateError(
                f"The {self._title} was opened before this process was forked, so it cannot be "
                "used here. Make a Host in the child."
            )

    # --- messages

    def _parsed(self, url: str) -> tuple[list[str], str, str]:
        """Return the secrets in an address, its host, and the address without them."""
        parts: dict[str, Any] = {}
        # Suppressed, because the error quotes the unknown part, which may be the password.
        with suppress(self._psycopg.ProgrammingError, UnicodeError):
            parts = self._psycopg.conninfo.conninfo_to_dict(url)
        # A password with a raw `@` or `/` ends early, and its rest becomes part of these.
        is_cut = "@" in f"{parts.get('host', '')}"[1:] or "@" in f"{parts.get('dbname')}"
        if not parts or is_cut or not _PORTS.fullmatch(str(parts.get("port", ""))):
            raise ConfigurationError(NOT_A_URL.format(setting=self._setting))
        secrets = [str(value) for name, value in parts.items() if "password" in name and value]
        host = str(parts.get("host") or "localhost")
        name = parts.get("dbname") or parts.get("user") or ""
        return secrets, host, f"postgresql://{host}:{parts.get('port') or 5432}/{name}"

    @contextmanager
    def explaining(self) -> Generator[None]:
        """Raise errors of the library in the block as `StateError`."""
        try:
            yield
        except self._psycopg.Error as error:
            raise self.explained(error) from error

    def explained(self, error: Exception) -> StateError:
        """Return an error of the library with its cause and a remedy, without secrets."""
        errors = self._psycopg.errors
        reason = hide(" ".join(str(error).split()), self._secrets).rstrip(".?")
        match error:
            case errors.InsufficientPrivilege():
                remedy = (
                    "Grant its user SELECT, INSERT, UPDATE and DELETE on the tables whose names "
                    "begin with toolstile_"
                )
            case errors.LockNotAvailable() | errors.QueryCanceled() | errors.DeadlockDetected():
                remedy = (
                    "Another transaction is in the way; pg_stat_activity shows whose, if it stays"
                )
            case self._psycopg.OperationalError():
                remedy = f"Start the server or fix {self._setting}"
            case self._psycopg.DataError():
                # Because an id may come from a user's request.
                remedy = "Leave NUL characters and lone surrogates out of ids and keys"
            case _:
                remedy = "Fix the cause"
        return StateError(
            f"The {self._title} in PostgreSQL on {self._host} cannot be used: {reason}. {remedy}, "
            "then retry."
        )


def is_pooled(connection: Connection) -> bool:
    """Tell whether a pooler is in between: its answers come from a different server process."""
    row = connection.execute(b"SELECT pg_backend_pid()").fetchone()
    return row != (connection.info.backend_pid,)


class ServerClock:
    """The clock of the server, which counts for the hosts that share a store."""

    _ahead, _ask_again = timedelta(), 0.0
    _read: Callable[..., list[Any]]

    def ahead_of(self, now: datetime) -> timedelta:
        """Return by how much the server's clock is ahead of `now`, read once a minute."""
        if time.monotonic() >= self._ask_again:
            ((there,),) = self._read("SELECT clock_timestamp()")
            self._ahead, self._ask_again = there - now, time.monotonic() + MINUTE
        return self._ahead
