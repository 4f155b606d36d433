"""A ledger's entries in PostgreSQL, shared by processes on several machines."""

from __future__ import annotations

import platform
from datetime import datetime
from typing import TYPE_CHECKING, Final

from toolstile_hookspecs import LedgerError, StateError
from toolstile_hookspecs.services.ledger import RecordedResult
from toolstile_plugins.database.postgres_database import PostgresDatabase, ServerClock
from toolstile_plugins.database.schema import Part
from toolstile_plugins.ledger.stores.sqlite import (
    COLUMNS,
    FINISH,
    OPEN,
    TABLE,
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


class PostgresStore(ServerClock, SqlStore):
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

    _columns = f"{COLUMNS}, lease < clock_timestamp()"
    _lease_now = "clock_timestamp() + ? * interval '1 second'"

    def __init__(self, database: PostgresDatabase | str, *, lease: float = 30.0) -> None:
        if isinstance(database, str):
            database = PostgresDatabase(database, title="ledger")
        super().__init__(database, lease)
        self.held = database
        self.held.require(LEDGER)

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
        try:
            with self.held.explaining():
                return connection.execute(FINISH.replace("?", "%s").encode(), values).rowcount > 0
        except StateError as error:
            raise LedgerError(str(error)) from error

    def _owner(self) -> str:
        return f"{platform.node()} {super()._owner()}"

    def _is_lapsed(self, row: Row) -> bool:
        return bool(row[18])
