"""Questions in a PostgreSQL database, shared by hosts on many machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs.services.approval_store import EventRecord
from toolstile_plugins.database.postgres_database import PostgresDatabase, of_postgres
from toolstile_plugins.database.schema import Part
from toolstile_plugins.inbox.sql import TABLES, SqlApprovals

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import BoundedConnection as Connection

_POSTGRES: Final = {
    "new": "",
    "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "real": "DOUBLE PRECISION",
    "bytes": "BYTEA",
    "flag": "BOOLEAN NOT NULL DEFAULT FALSE",
}
APPROVALS: Final = Part("approvals", (TABLES.format(**_POSTGRES),))
"""The tables of questions, grants and events."""


class PostgresApprovals(SqlApprovals):
    """Questions in tables of a database, made when they are first needed.

    Args:
        held: The database.
    """

    # Who tells an event waits for who tells it already, so that they are told in order.
    _alone = " FOR UPDATE"

    def __init__(self, held: PostgresDatabase) -> None:
        self._held = held
        held.require(APPROVALS)

    def close(self) -> None:
        """Close the connections; the next use connects again."""
        self._held.close()

    def _read(self, select: str, *values: Any) -> list[Any]:
        return self._held.read(of_postgres(select), *values)

    @contextmanager
    def _writing(self) -> Generator[_Statements]:
        with self._held.writing() as connection:
            yield _Statements(connection)

    def _tell(self, hear: Callable[[EventRecord], object], event: EventRecord) -> None:
        # A listener may write to its session, which is kept whatever becomes of the telling.
        with self._held.apart():
            hear(event)

    def _altered(self) -> tuple[str, str]:
        return self._held.database, "Remove its row from toolstile_questions"


class _Statements:
    """A connection that takes statements as they are written for all databases."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any]) -> Any:
        """Run a statement."""
        return self._connection.execute(of_postgres(statement).encode(), values)
