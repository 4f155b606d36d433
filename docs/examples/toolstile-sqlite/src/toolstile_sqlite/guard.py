"""The limits of a statement: its actions and its time."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import apsw

from toolstile_hookspecs import ToolContext


class Access(Enum):
    """The actions that a tool allows to statements."""

    READ = "read"
    WRITE = "write"


ALWAYS: Final = frozenset(
    {apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_RECURSIVE},
)
CHANGING: Final = frozenset(
    {apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE},
)
FORBIDDEN_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer"})
# SQLite asks for these itself. A full-text index asks whether the file has changed, and the session
# extension which columns a table has.
HARMLESS_PRAGMAS: Final = frozenset({"data_version", "table_xinfo"})

REFUSALS: Final[Mapping[int, str]] = {
    apsw.SQLITE_ATTACH: "Other databases cannot be opened. Do without.",
    apsw.SQLITE_DETACH: "The database cannot be closed. Do without.",
    apsw.SQLITE_PRAGMA: "PRAGMA cannot be used here. For tables and columns call sql_schema.",
    apsw.SQLITE_TRANSACTION: (
        "Each call is a transaction already. Leave out BEGIN, COMMIT and ROLLBACK, then retry."
    ),
    apsw.SQLITE_SAVEPOINT: (
        "Each call is a savepoint already. Leave out SAVEPOINT and RELEASE, then retry."
    ),
    apsw.SQLITE_FUNCTION: "This SQL function cannot be used here. Do without.",
}
STRUCTURE: Final = (
    "The structure of the database (tables, indexes, views, triggers) cannot be changed here. Do "
    "without, or ask for human intervention."
)
ONLY_READS: Final = "sql_query only reads. To change data call sql_execute, if there is one."


class Guard:
    """Decides what SQLite asks while it prepares a statement.

    Args:
        access: What the statement may do.

    Attributes:
        refusal: Why the statement was refused, None where it was not.
        inserts: Whether the statement itself inserts rows.
    """

    def __init__(self, access: Access) -> None:
        self.refusal: str | None = None
        self.inserts = False
        self._access = access

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        _database: str | None,
        trigger: str | None,
    ) -> int:
        """Answer as `apsw.Connection.authorizer` wants it."""
        self.inserts = self.inserts or (action == apsw.SQLITE_INSERT and trigger is None)
        refusal = self._against(action, first or "", second or "")
        if refusal is None:
            return apsw.SQLITE_OK
        self.refusal = self.refusal or refusal
        return apsw.SQLITE_DENY

    def _against(self, action: int, first: str, second: str) -> str | None:
        if action in ALWAYS:
            return None
        if action == apsw.SQLITE_FUNCTION and second.lower() not in FORBIDDEN_FUNCTIONS:
            return None
        if action == apsw.SQLITE_PRAGMA and first.lower() in HARMLESS_PRAGMAS:
            return None
        if action in CHANGING:
            if first.lower().startswith("sqlite_"):
                return STRUCTURE
            return ONLY_READS if self._access is Access.READ else None
        return REFUSALS.get(action, STRUCTURE)


class Watch:
    """Ends a statement whose time is over.

    Args:
        context: The call's context.
        time_limit: The most seconds that the statement may run.

    Attributes:
        ended: Why it was ended, None where it was not.
    """

    def __init__(self, context: ToolContext, time_limit: float) -> None:
        self.ended: str | None = None
        self._context = context
        self._limit = time_limit
        self._until = context.clock.monotonic() + time_limit

    def __call__(self) -> bool:
        """Tell SQLite whether to stop, as `set_progress_handler` wants it."""
        deadline = self._context.deadline
        if self._context.cancelled:
            self.ended = "the call was cancelled"
        elif deadline is not None and deadline.elapsed():
            self.ended = "the deadline has passed"
        elif self._context.clock.monotonic() > self._until:
            self.ended = f"it ran longer than {self._limit:g} seconds"
        return self.ended is not None
