"""A counter in the PostgreSQL database of stored sessions, shared by all hosts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from toolstile_plugins.database.postgres_database import lock_of
from toolstile_plugins.database.schema import Part
from toolstile_plugins.sessions.counter import Held, SqlCounter

if TYPE_CHECKING:
    from toolstile_hookspecs.services.session_store import SessionStore
    from toolstile_plugins.database.bounded_connection import Transaction
    from toolstile_plugins.database.postgres_database import PostgresDatabase

COUNTS: Final = Part(
    "counts",
    (
        # As NUMERIC, whole amounts are added exactly.
        """CREATE TABLE toolstile_counts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    key TEXT COLLATE "C" NOT NULL,
    amount NUMERIC NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL
);
CREATE INDEX toolstile_counts_by_key ON toolstile_counts (key, until);
CREATE INDEX toolstile_counts_by_end ON toolstile_counts (until)""",
    ),
)
"""The table of reservations."""

# SKIP LOCKED, because another transaction may be removing the same expired rows.
_KEEP: Final = """WITH expired AS (
    DELETE FROM toolstile_counts WHERE id IN (
        SELECT id FROM toolstile_counts WHERE until <= ? AND id <> ?
        LIMIT 100 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO toolstile_counts AS old VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    key = excluded.key, amount = excluded.amount, at = excluded.at, until = excluded.until
    WHERE old.until <= excluded.at"""


class PostgresCounter(SqlCounter):
    """A `Counter` in a database, beside the store of sessions in it; see `SqlCounter`."""

    def __init__(self, held: PostgresDatabase, store: SessionStore) -> None:
        super().__init__(held, store)
        held.require(COUNTS)

    def _alone(self, key: str) -> AbstractContextManager[Transaction]:
        transaction: AbstractContextManager[Transaction]
        transaction = self._database.writing(lock_of("count", key))
        return transaction

    def _keep(self, place: Transaction, held: Held) -> bool:
        row = held._replace(amount=self._written(held.amount))
        return place.execute(_KEEP, (held.at, held.id, *row)).rowcount > 0

    def _written(self, amount: float) -> Any:
        return Decimal(amount)

    def _number(self, amount: Any) -> float:
        return int(amount) if amount == amount.to_integral_value() else float(amount)
