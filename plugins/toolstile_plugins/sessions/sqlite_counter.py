"""A counter in the SQLite file of stored sessions, for all processes that have it open."""

from __future__ import annotations

import math
import sqlite3
from datetime import datetime
from typing import Final

from toolstile_hookspecs.services.counter import Reservation
from toolstile_plugins.sessions.memory_counter import MemoryCounter, check_amount, wait_of
from toolstile_plugins.sessions.sqlite import SqliteSessions

# What has no type stays what it was given as: whole numbers are added as such.
_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS toolstile_counts (
        id TEXT NOT NULL PRIMARY KEY, key TEXT NOT NULL, amount NOT NULL, at REAL NOT NULL,
        until REAL NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS toolstile_counts_by_key ON toolstile_counts (key, until)",
    "CREATE INDEX IF NOT EXISTS toolstile_counts_by_end ON toolstile_counts (until)",
)
_HAS_TABLES: Final = "SELECT 1 FROM sqlite_master WHERE name = 'toolstile_counts'"
_EXPIRE: Final = "DELETE FROM toolstile_counts WHERE until <= ?"
_IS_THERE: Final = "SELECT 1 FROM toolstile_counts WHERE id = ?"
# A clock that was set back by more than a window does not count what was reserved before.
_COUNTS: Final = "FROM toolstile_counts WHERE key = ? AND until > ? AND at - (until - at) <= ?"
_SUM: Final = f"SELECT coalesce(sum(amount), 0) {_COUNTS}"
_HELD: Final = f"SELECT amount, until {_COUNTS}"
_KEEP: Final = "INSERT INTO toolstile_counts VALUES (?, ?, ?, ?, ?)"
_SETTLE: Final = "UPDATE toolstile_counts SET amount = ? WHERE id = ?"
_GIVE_BACK: Final = "DELETE FROM toolstile_counts WHERE id = ?"


class SqliteCounter:
    """A `Counter` in the file of a `SqliteSessions`.

    Within an open decision of the thread it counts in that transaction, else in one of its own.

    Args:
        store: The store of sessions whose file it is.
    """

    waits = True

    def __init__(self, store: SqliteSessions) -> None:
        self.store = store
        self._file = store.file

    @property
    def database(self) -> str:
        """The file."""
        return self._file.database

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
        with self._file.writing() as connection:
            _make_tables(connection)
            connection.execute(_EXPIRE, (moment,))
            is_there = connection.execute(_IS_THERE, (id,)).fetchone()
            used: float = connection.execute(_SUM, (key, moment, moment)).fetchone()[0]
            if is_there:
                return Reservation(granted=True, used=used, is_new=False)
            if used + amount <= limit:
                connection.execute(_KEEP, (id, key, amount, moment, until))
                return Reservation(granted=True, used=used + amount)
            held = connection.execute(_HELD, (key, moment, moment)).fetchall()
        wait = wait_of(used + amount - limit, held, moment)
        return Reservation(granted=False, used=used, wait=wait)

    def settle(self, id: str, amount: float) -> None:  # noqa: A002 - it is the id
        """Let a reservation count with what it came to, 0 for nothing; an unknown id is over."""
        check_amount(amount)
        with self._file.writing() as connection:
            _make_tables(connection)
            if amount:
                connection.execute(_SETTLE, (amount, id))
            else:
                connection.execute(_GIVE_BACK, (id,))

    def read(self, key: str, *, now: datetime) -> float:
        """Return the sum of what counts under a key."""
        if not self._file.read(_HAS_TABLES):
            return 0
        moment = now.timestamp()
        used: float = self._file.read(_SUM, key, moment, moment)[0][0]
        return used

    def apart(self, *, anew: bool) -> MemoryCounter:
        """Return a counter in memory that goes on from here, or begins anew: for dry runs."""
        return MemoryCounter(None if anew else self)


def _make_tables(connection: sqlite3.Connection) -> None:
    # Asked each time, since the transaction that made them may have been undone.
    if not connection.execute(_HAS_TABLES).fetchone():
        for table in _TABLES:
            connection.execute(table)
