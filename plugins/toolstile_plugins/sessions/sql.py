"""The base of stores of sessions in databases; the statements suit SQLite and PostgreSQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Final

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.session_store import Entry, SessionInfo

_DELETED: Final = (
    "The stored session {session} was deleted meanwhile, so nothing can be added to it. Close "
    "every host that has it open, then start a new session."
)
_HAS_MOVED: Final = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number > ? LIMIT 1"
_AFTER: Final = (
    "SELECT number, decision_id, epoch, changes, has_files FROM toolstile_sessions "
    "WHERE session_id = ? AND number > ? ORDER BY number"
)
_IS_THERE: Final = "SELECT 1 FROM toolstile_sessions WHERE session_id = ? AND number = ?"
_REMOVE: Final = "DELETE FROM toolstile_sessions WHERE session_id = ? AND number <= ?"
_ALL: Final = 2**63 - 1
"""A number that no entry exceeds."""
_LIST: Final = (
    "SELECT session_id, max(number), {moment} FROM toolstile_sessions "
    "GROUP BY session_id ORDER BY 3, 1"
)


class SqlSessions(ABC):
    """The entries of sessions in a table of a database; a `SessionStore`."""

    waits = True
    _moment = "max(decided_at)"
    """The SQL of the time of the last decision, in seconds."""

    def __init__(self, database: Any) -> None:
        self._database = database

    @property
    def database(self) -> str:
        """The file or address."""
        return str(self._database.database)

    def has_moved(self, session_id: str, number: int) -> bool:
        """Tell whether there are entries after a number."""
        return bool(self._database.read(_HAS_MOVED, session_id, number))

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order."""
        return [_entry(row) for row in self._database.read(_AFTER, session_id, number)]

    @abstractmethod
    def deciding(self, session_id: str) -> AbstractContextManager[SqlDecision]:
        """Open the transaction of a decision."""

    def condense(self, session_id: str, whole: Entry) -> None:
        """Keep an entry with the whole state in place of those up to its number."""
        with self.deciding(session_id) as decision:
            place = session_id, whole.number
            if decision.transaction.execute(_IS_THERE, place).fetchall():
                self._remove(decision.transaction, *place)
                decision.append(whole)

    def sessions(self) -> Sequence[SessionInfo]:
        """Return the stored sessions, the one changed last at the end."""
        return [
            SessionInfo(session_id, number, datetime.fromtimestamp(float(moment), UTC))
            for session_id, number, moment in self._database.read(_LIST.format(moment=self._moment))
        ]

    def delete(self, session_id: str) -> bool:
        """Remove a session; the ids of its decisions stay known."""
        with self.deciding(session_id) as decision:
            return self._remove(decision.transaction, session_id, _ALL) > 0

    def close(self) -> None:
        """Close the database; the next use opens it again. A fork leaves its parent's open."""
        self._database.close()

    def _remove(self, transaction: Any, session_id: str, number: int) -> int:
        """Remove the entries up to a number; return how many they were."""
        removed: int = transaction.execute(_REMOVE, (session_id, number)).rowcount
        return removed


class SqlDecision(ABC):
    """An open decision in a database; see `OpenDecision`."""

    def __init__(self, transaction: Any, session_id: str) -> None:
        self.transaction = transaction
        self._session_id = session_id

    @property
    def connection(self) -> Any:
        """The connection of the transaction, which has begun."""
        return self.transaction

    def after(self, number: int) -> Sequence[Entry]:
        """Return the entries after a number, in order.

        Raises:
            StateError: The session was deleted, so no other host could follow this one.
        """
        # The newest entry is always there, condensed or not.
        found = self.transaction.execute(_AFTER, (self._session_id, number - 1)).fetchall()
        if number and not found:
            raise StateError(_DELETED.format(session=self._session_id))
        return [_entry(row) for row in found if row[0] > number]

    @abstractmethod
    def append(self, entry: Entry) -> None:
        """Record an entry."""


def _entry(row: Sequence[Any]) -> Entry:
    number, decision_id, epoch, changes, has_files = row
    if not isinstance(changes, str):
        changes = bytes(changes).decode("utf-8", "surrogatepass")
    return Entry(number, decision_id, epoch, changes, bool(has_files))
