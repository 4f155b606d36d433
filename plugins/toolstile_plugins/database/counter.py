"""A counter in the PostgreSQL database of stored sessions, shared by all hosts."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs.services.counter import Reservation
from toolstile_plugins.database.postgres_database import lock_of
from toolstile_plugins.database.schema import Part
from toolstile_plugins.sessions.counter import MemoryCounter, check_amount, wait_of

if TYPE_CHECKING:
    from toolstile_hookspecs.services.session_store import SessionStore
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

# If a clock was set back by more than a window, earlier reservations do not count.
_COUNTS: Final = "FROM toolstile_counts WHERE key = %s AND until > %s AND at - (until - at) <= %s"
_SUM: Final = f"SELECT coalesce(sum(amount), 0) {_COUNTS}"
_HELD: Final = f"SELECT amount, until {_COUNTS}"
# SKIP LOCKED, because another transaction may be removing the same expired rows.
_KEEP: Final = """WITH expired AS (
    DELETE FROM toolstile_counts WHERE id IN (
        SELECT id FROM toolstile_counts WHERE until <= %s AND id <> %s
        LIMIT 100 FOR UPDATE SKIP LOCKED
    )
)
INSERT INTO toolstile_counts AS old VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET
    key = excluded.key, amount = excluded.amount, at = excluded.at, until = excluded.until
    WHERE old.until <= excluded.at"""
_IS_THERE: Final = "SELECT 1 FROM toolstile_counts WHERE id = %s AND until > %s"
_SETTLE: Final = "UPDATE toolstile_counts SET amount = %s WHERE id = %s"
_GIVE_BACK: Final = "DELETE FROM toolstile_counts WHERE id = %s"


class PostgresCounter:
    """A `Counter` in a database, beside the store of sessions in it.

    Within an open decision of the thread it counts in that transaction, else in a new one.
    """

    waits = True

    def __init__(self, held: PostgresDatabase, store: SessionStore) -> None:
        self._held = held
        self.store = store
        held.require(COUNTS)

    @property
    def database(self) -> str:
        """The address."""
        return self._held.database

    def reserve(  # noqa: PLR0913 - the protocol's
        self,
        key: str,
        amount: float,
        limit: float,
        window: float | None,
        id: str,  # noqa: A002 - it is the id
        *,
        now: datetime,
    ) -> Reservation:
        """Let an amount count in full, unless the sum under its key would exceed the limit."""
        check_amount(amount)
        moment = now.timestamp()
        until = math.inf if window is None else moment + window
        with self._held.writing(lock_of("count", key)) as connection:
            used = self.read(key, now=now)
            if used + amount <= limit:
                row = (moment, id, id, key, Decimal(amount), moment, until)
                if connection.execute(_KEEP, row).rowcount:
                    return Reservation(granted=True, used=used + amount)
                return Reservation(granted=True, used=used, is_new=False)
            if connection.execute(_IS_THERE, (id, moment)).rowcount:
                return Reservation(granted=True, used=used, is_new=False)
            found = connection.execute(_HELD, (key, moment, moment)).fetchall()
        held = [(_number(each), end) for each, end in found]
        wait = wait_of(used + amount - limit, held, moment)
        return Reservation(granted=False, used=used, wait=wait)

    def settle(self, id: str, amount: float) -> None:  # noqa: A002 - it is the id
        """Set the final amount of a reservation, 0 to release it; an unknown id has expired."""
        check_amount(amount)
        if amount:
            self._held.read(_SETTLE, Decimal(amount), id)
        else:
            self._held.read(_GIVE_BACK, id)

    def read(self, key: str, *, now: datetime) -> float:
        """Return the sum of the reservations of a key."""
        moment = now.timestamp()
        return _number(self._held.read(_SUM, key, moment, moment)[0][0])

    def apart(self, *, anew: bool) -> MemoryCounter:
        """Return a counter in memory for dry runs, which starts from these amounts or from zero."""
        return MemoryCounter(None if anew else self)


def _number(amount: Any) -> float:
    return int(amount) if amount == amount.to_integral_value() else float(amount)
