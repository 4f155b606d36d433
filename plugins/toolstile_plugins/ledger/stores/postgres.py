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
from toolstile_plugins.leases import Process
from toolstile_plugins.ledger.stores.sql import (
    COLUMNS,
    FINISH,
    OPEN,
    TABLE,
    Done,
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
"""The table of effects, which has no version if an early ledger made it."""

MINUTE: Final = 60.0


class PostgresStore(SqlStore):
    """Entries in a table of a PostgreSQL database; the first use makes the table.

    A claim lasts until its lease ends without a renewal, by the clock of the database; the clocks
    of the machines do not count. Beside stored sessions in the same database, a
    result is recorded in the transaction that decides its call.

    Args:
        database: The database, or its connection string, as `postgresql://user@host/name`.
        lease: Seconds after which a claim lapses that is not renewed.

    Raises:
        ConfigurationError: The extra `postgres` is missing, or the text is no connection string.
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
        """Return by how much the database's clock is ahead of a host's, read once a minute.

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
        """Close the connections; the next use connects again. A fork leaves its parent's open."""
        self.held.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Done:
        # Safe to run again if an answer was lost, because it names the effect that it expects.
        with _as_ledger_error():
            if statement.startswith("SELECT"):
                return Done(self.held.read(statement, *values), 0)
            return Done((), self.held.change(statement, *values))

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
