"""A ledger's entries in PostgreSQL, shared by processes on several machines."""

from __future__ import annotations

import platform
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs import LedgerError, StateError
from toolstile_hookspecs.services.ledger import RecordedResult
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.schema import Part
from toolstile_plugins.ledger.stores.sql import (
    COLUMNS,
    FINISH,
    OPEN,
    TABLE,
    Done,
    Process,
    Row,
    SqlStore,
    finished,
)

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import BoundedConnection as Connection

_TYPES: Final = {"integer": "BIGINT", "bytes": "BYTEA", "flag": "SMALLINT", "lease": "TIMESTAMPTZ"}
_FINISH_OR_REFUSE: Final = (
    f"WITH finished AS ({FINISH} RETURNING 1) "  # noqa: S608 - our own statement
    "SELECT toolstile_refuse() WHERE NOT EXISTS (SELECT FROM finished)"
)
LEDGER: Final = Part("ledger", (TABLE.format(**_TYPES), OPEN))
"""The table of effects; it may be there without a version, as ledgers had none once."""

MINUTE: Final = 60.0


class PostgresStore(SqlStore):
    """Entries in a table of a PostgreSQL database, made when it is first needed.

    A claim is held until its lease ends without having been renewed, by the clock of the
    database: those of the machines do not count. Beside stored sessions in the same database, a
    result is recorded in the transaction that decides its call.

    Args:
        database: The database, or its connection string, as `postgresql://user@host/name`.
        lease: Seconds after which a claim that is not renewed counts as given up.

    Raises:
        ConfigurationError: The extra `postgres` is not installed, or it is not a connection string.
    """

    waits = True
    _columns = f"{COLUMNS}, lease < clock_timestamp()"
    _lease_now = "clock_timestamp() + ? * interval '1 second'"

    def __init__(self, database: PostgresDatabase | str, *, lease: float = 30.0) -> None:
        super().__init__()
        if isinstance(database, str):
            database = PostgresDatabase(database, title="ledger")
        self.held = database
        self.held.require(LEDGER)
        self.lease: float | None = lease
        self._ahead, self._ask_again = timedelta(), 0.0

    @property
    def database(self) -> str:
        """The address, as a session store in it names it, too."""
        return self.held.database

    def ahead_of(self, now: datetime) -> timedelta:
        """Return the time by which the database's clock is ahead of a host's, asked once a minute.

        Args:
            now: The time by the host's clock.
        """
        if time.monotonic() >= self._ask_again:
            ((there,),) = self._run("SELECT clock_timestamp()").rows
            self._ahead, self._ask_again = there - now, time.monotonic() + MINUTE
        return self._ahead

    def finish_within(  # noqa: PLR0913 - the protocol's
        self,
        connection: Connection,
        key: str,
        effect_id: str,
        result: RecordedResult,
        expires_at: datetime | None,
        *,
        refusal: Exception | None = None,
    ) -> bool:
        """Record a result in a transaction of a session store; with a refusal, at its commit."""
        values = finished(key, effect_id, result, expires_at)
        if refusal is not None and (transaction := getattr(connection, "within", None)):
            transaction.execute(_FINISH_OR_REFUSE, values, refusal)
            return True
        with _as_ledger_error(), self.held.explaining():
            return connection.execute(FINISH.replace("?", "%s").encode(), values).rowcount > 0

    def close(self) -> None:
        """Close the connections; the next use connects again. A child leaves its parent's open."""
        self.held.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Done:
        is_look = statement.startswith("SELECT")
        with _as_ledger_error():
            # It may be run again, where an answer was lost: it names the effect that it expects.
            rows = self.held.read(statement if is_look else f"{statement} RETURNING 1", *values)
        return Done(rows, 0) if is_look else Done((), len(rows))

    def _owner(self) -> str:
        return f"{platform.node()} {Process.current()}"

    def _lease_values(self, seconds: float | None = None) -> tuple[Any, ...]:
        return (self.lease if seconds is None else seconds,)

    def _is_lapsed(self, row: Row) -> bool:
        return bool(row[18])


@contextmanager
def _as_ledger_error() -> Generator[None]:
    try:
        yield
    except StateError as error:
        raise LedgerError(str(error)) from error
