"""A ledger's entries in PostgreSQL, shared by processes on several machines."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs import ConfigurationError, LedgerError, hide
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.ledger.stores.process_identity import Process
from toolstile_plugins.ledger.stores.sql import COLUMNS, Done, Row, SqlStore

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

TIMEOUT: Final = 10
"""Seconds for connecting, and for one statement."""
CONNECTIONS: Final = 8
"""The maximum number for a process."""

_LOCK: Final = 0x746F6F6C79617264
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS toolstile_effects (
    key TEXT NOT NULL PRIMARY KEY,
    tool_name TEXT NOT NULL,
    params_hash TEXT NOT NULL,
    effect_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    state TEXT NOT NULL,
    expires_at BIGINT,
    message BYTEA,
    value BYTEA,
    excluded SMALLINT NOT NULL DEFAULT 0,
    changes BYTEA,
    unportable TEXT,
    reason TEXT,
    owner TEXT NOT NULL,
    lease TIMESTAMPTZ NOT NULL,
    secret SMALLINT NOT NULL DEFAULT 0
)
"""


class PostgresStore(SqlStore):
    """Entries in a table of a PostgreSQL database, made when it is first needed.

    A claim is held until its lease ends without having been renewed, by the clock of the
    database: those of the machines do not count. After a restart of the server, and after a
    lost connection, the next use connects again.

    Args:
        url: The connection string, as `postgresql://user@host/name`.
        lease: Seconds after which a claim that is not renewed counts as given up.

    Raises:
        ConfigurationError: The extra `postgres` is not installed.
    """

    waits = True
    _columns = f"{COLUMNS}, lease < clock_timestamp()"
    _lease_now = "clock_timestamp() + ? * interval '1 second'"

    def __init__(self, url: str, *, lease: float = 30.0) -> None:
        super().__init__()
        try:
            import psycopg  # late: only who uses it has it

            from toolstile_plugins.database.bounded_connection import BoundedConnection
        except ImportError as error:
            raise ConfigurationError(
                f"The ledger's store 'postgres' needs psycopg. {extra_remedy('postgres')}."
            ) from error
        self._psycopg = psycopg
        self._open = BoundedConnection.connect
        self._url = url
        self.lease: float | None = lease
        self._idle: list[Connection] = []
        self._places = threading.BoundedSemaphore(CONNECTIONS)
        self._is_made = False

    def close(self) -> None:
        """Close the connections; the next use connects again. A child leaves its parent's open."""
        if self._process == os.getpid():
            self._process = None
            self._close_idle()

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Done:
        statement = statement.replace("?", "%s")
        try:
            try:
                return self._execute(statement, values)
            except self._psycopg.OperationalError:
                # The server was restarted, or a connection lost. Each statement may be run again:
                # it names the effect that it expects.
                self._close_idle()
                return self._execute(statement, values)
        except (self._psycopg.Error, ValueError, OverflowError) as error:
            raise self._explained(error) from error

    def _execute(self, statement: str, values: Sequence[Any]) -> Done:
        with self._connected() as connection:
            cursor = connection.execute(statement.encode(), values)
            rows = cursor.fetchall() if cursor.description is not None else []
            return Done(rows, cursor.rowcount)

    @contextmanager
    def _connected(self) -> Generator[Connection]:
        self._check_process()
        with self._places:
            connection = self._idle.pop() if self._idle else self._connect()
            self._process = os.getpid()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)

    def _connect(self) -> Connection:
        connection: Connection = self._open(
            self._url,
            autocommit=True,
            connect_timeout=TIMEOUT,
            application_name="toolstile",
            # Else, psycopg gives bytes or takes no key where the database is not in UTF-8.
            client_encoding="utf-8",
            # Else, a peer that is gone without a word is waited for as long as the system does.
            tcp_user_timeout=TIMEOUT * 1000,
            keepalives_idle=TIMEOUT,
        )
        try:
            self._set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: Connection) -> None:
        # The only way of writing dates that psycopg reads.
        connection.execute(b"SET statement_timeout = '%ds'; SET datestyle = 'ISO'" % TIMEOUT)
        if not self._is_made:
            self._make_table(connection)
            self._is_made = True

    def _make_table(self, connection: Connection) -> None:
        # Who may not make a table may not say so either where it is there, IF NOT EXISTS or not.
        if connection.execute("SELECT to_regclass('toolstile_effects')").fetchone() != (None,):
            return
        # Two that make it at once would fail at one another.
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            connection.execute(_TABLE)

    def _owner(self) -> str:
        return f"{platform.node()} {Process.current()}"

    def _lease_values(self, seconds: float | None = None) -> tuple[Any, ...]:
        return (self.lease if seconds is None else seconds,)

    def _is_lapsed(self, row: Row) -> bool:
        return bool(row[18])

    def _explained(self, error: Exception) -> LedgerError:
        from psycopg.conninfo import conninfo_to_dict  # it is there: psycopg raised the error

        try:
            parts = conninfo_to_dict(self._url)
        except self._psycopg.ProgrammingError:
            # Its text quotes what it does not understand, which may be the password.
            return LedgerError(
                "The ledger in PostgreSQL cannot be used: plugins.ledger.url is not a connection "
                "string. Write postgresql://USER:PASSWORD@HOST/NAME, with what is neither letter "
                "nor digit in the password percent-encoded, then retry."
            )
        host = parts.get("host") or "localhost"
        secrets = [str(value) for name, value in parts.items() if "password" in name and value]
        reason = hide(" ".join(str(error).split()), secrets).rstrip(".?")
        remedy = "Start the server or fix plugins.ledger.url"
        if isinstance(error, self._psycopg.errors.InsufficientPrivilege):
            remedy = (
                "Grant its user SELECT, INSERT, UPDATE and DELETE on the table toolstile_effects, "
                "or CREATE on the schema where there is no such table yet"
            )
        return LedgerError(
            f"The ledger in PostgreSQL on {host} cannot be used: {reason}. {remedy}, then retry."
        )
