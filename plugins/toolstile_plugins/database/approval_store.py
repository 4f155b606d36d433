"""Questions in a PostgreSQL database, shared by hosts on many machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from toolstile_hookspecs.services.approval_store import EventRecord
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.schema import Part
from toolstile_plugins.inbox.sql import TABLES, SqlApprovals

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
        super().__init__(held, (held.database, "Remove its row from toolstile_questions"))
        held.require(APPROVALS)

    def _tell(self, hear: Callable[[EventRecord], object], event: EventRecord) -> None:
        # A listener may write to its session, which is kept whatever becomes of the telling.
        with self._database.apart():
            hear(event)
