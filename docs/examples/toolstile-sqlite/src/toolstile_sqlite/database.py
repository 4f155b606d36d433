"""The database of a session: one connection, which one call at a time holds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

from toolstile_hookspecs import (
    CallRefused,
    Difference,
    ResourceError,
    ToolContext,
    ToolValidationError,
)
from toolstile_sqlite.guard import Access, Guard, Watch
from toolstile_sqlite.results import Change, Cutter, Rows, Scalar
from toolstile_sqlite.settings import Settings
from toolstile_sqlite.undo import put_back, recorded

Params = Sequence[Scalar] | Mapping[str, Scalar]

OPENING: Final = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
"""The address says which of them hold."""
STEPS_BETWEEN_LOOKS: Final = 1_000
# What grows without a step of SQLite's own machine in between cannot be interrupted.
ONE_STATEMENT: Final = "one statement at a time"
LIMITS: Final = {
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LENGTH: 16 * 1024 * 1024,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
}
# Behind a statement, neither of them is a second one.
BLANK: Final = re.compile(r"(?:[\s;]|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*", re.DOTALL)
LOST: Final = (
    "SQLite has undone the whole transaction after a failure within it, so nothing can be added to "
    "it or kept. End this call, then retry it as a whole."
)


class Database:
    """A SQLite database, of which each call is a savepoint.

    It is `Exclusive`: the host lets one call at a time in, from its first access to the end, in
    which it asks to keep or to undo everything since. A savepoint outside of any other is a
    transaction.

    Args:
        settings: The plugin's settings, with a path.

    Raises:
        ResourceError: When the file cannot be opened, or is not a database.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.path is None:
            raise ResourceError("No database is named. Set path in [plugins.sqlite].")
        self._settings = settings
        self._numbers = itertools.count(1)
        self._savepoints: list[str] = []
        self._recording: apsw.Session | None = None
        mode = "ro" if not settings.writes else "rwc" if settings.create else "rw"
        # As a URI every character of the path stands for itself.
        address = f"{settings.path.absolute().as_uri()}?mode={mode}"
        try:
            self._connection = apsw.Connection(address, OPENING)
            self._connection.set_busy_timeout(round(settings.busy_timeout * 1_000))
        except apsw.Error as error:
            raise self._cannot_open(error) from error
        try:
            self._set_up()
        except apsw.Error as error:
            self._connection.close()
            raise self._cannot_open(error) from error

    # --- what the host asks of an exclusive resource ---

    def begin(self) -> str:
        """Begin a savepoint, within that of the calling call if there is one."""
        self._refuse_lost()
        name = f"call_{next(self._numbers)}"
        if self._settings.writes and not self._savepoints:
            self._recording = apsw.Session(self._connection, "main")
            # Tables without a primary key, too.
            self._recording.config(apsw.SQLITE_SESSION_OBJCONFIG_ROWID, True)  # noqa: FBT003 - no keyword is taken
            self._recording.attach()
        self._connection.execute(f"SAVEPOINT {name}")
        self._savepoints.append(name)
        return name

    def prepare(self, savepoint: str) -> None:  # noqa: ARG002 - all savepoints are lost, or none
        """Refuse what SQLite has undone already, before anything else of the call is committed.

        Raises:
            CallRefused: When there is nothing left to keep.
        """
        if self._lost:
            raise CallRefused(LOST)

    def commit(self, savepoint: str) -> None:
        """Keep what was done since the savepoint.

        Raises:
            ResourceError: When it cannot be kept; nothing of it is.
        """
        self._end(savepoint)
        try:
            self._connection.execute(f"RELEASE {savepoint}")
        except apsw.Error as error:
            self._undo(savepoint)
            raise ResourceError(
                f"SQLite refuses to commit ({error}). The database is as it was before the call."
            ) from error

    def rollback(self, savepoint: str) -> None:
        """Undo what was done since the savepoint."""
        self._end(savepoint)
        self._undo(savepoint)

    def reverse(self) -> str:
        """Return the changes since the outermost savepoint, for `undo`; see `Reversible`."""
        return "" if self._recording is None else recorded(self._connection, self._recording)

    def undo(self, text: str) -> tuple[list[str], list[Difference]]:
        """Put the rows back that another call has changed; see `put_back`."""
        self._refuse_lost()
        self._connection.execute("PRAGMA query_only = 0")
        return put_back(self._connection, text)

    def close(self) -> None:
        """Close the connection; what is in no ended call is undone."""
        self._connection.close()

    # --- what the tools ask ---

    def query(self, sql: str, params: Params, context: ToolContext) -> Rows:
        """Return the rows of a statement that reads.

        Raises:
            ToolValidationError: When it is wrong, does not only read, or takes too long.
        """
        with self._allowing(Access.READ, context):
            return self._run(sql, params, read_all=False)

    def execute(self, sql: str, params: Params, context: ToolContext) -> Change:
        """Run a statement that changes rows.

        Raises:
            ToolValidationError: When it is wrong, does more than that, or takes too long.
        """
        with self._allowing(Access.WRITE, context) as guard:
            before = self._connection.total_changes()
            shown = self._run(sql, params, read_all=True)
            returned = shown if shown.columns else None
            if self._connection.total_changes() == before:
                return Change(0, returned=returned)
            inserted = self._connection.last_insert_rowid() if guard.inserts else None
            return Change(self._connection.changes(), inserted, returned)

    def definitions(self) -> list[tuple[str, str, str]]:
        """Return kind, name and SQL of everything that the database is made of."""
        self._refuse_lost()
        found: list[Any] = self._connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type = 'index', type, name"
        ).fetchall()
        return found

    # --- how ---

    def _set_up(self) -> None:
        for limit, value in LIMITS.items():
            self._connection.limit(limit, value)
        # Keeps the tables behind full-text indexes from being written to directly.
        self._connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        if self._settings.writes:
            # Sessions that read then hinder none that writes. In use by others, it stays as it is.
            with suppress(apsw.Error):
                self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.execute("PRAGMA trusted_schema = OFF")
        # A file that is not a database says so at the first look into it. Virtual tables declare
        # themselves at the first look into them, which no statement of a model may do.
        virtual = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'"
        for (name,) in self._connection.execute(virtual).fetchall():
            quoted = str(name).replace('"', '""')
            with suppress(apsw.Error):  # of a module that is not there
                self._connection.execute(f'SELECT 1 FROM "{quoted}" LIMIT 0')  # noqa: S608 - quoted

    @contextmanager
    def _allowing(self, access: Access, context: ToolContext) -> Generator[Guard]:
        self._refuse_lost()
        guard, watch = Guard(access), Watch(context, self._settings.time_limit)
        self._connection.execute(f"PRAGMA query_only = {access is Access.READ:d}")
        self._connection.authorizer = guard
        self._connection.set_progress_handler(watch, STEPS_BETWEEN_LOOKS)
        try:
            yield guard
        except (apsw.Error, ValueError, OverflowError) as error:
            raise ToolValidationError(self._explain(error, guard, watch)) from error
        finally:
            self._connection.set_progress_handler(None, 0)
            self._connection.authorizer = None

    def _run(self, sql: str, params: Params, *, read_all: bool) -> Rows:
        columns: list[str] = []

        def begin(cursor: apsw.Cursor, statement: str, _: object) -> bool:
            if BLANK.fullmatch(sql, len(statement)) is None:
                raise ValueError(ONE_STATEMENT)
            columns.extend(column[0] for column in cursor.get_description())
            return True

        cutter = Cutter(self._settings.max_rows, self._settings.max_characters)
        cursor = self._connection.cursor()
        cursor.exec_trace = begin
        try:
            for row in cursor.execute(sql, params):
                if not cutter.take(row) and not read_all:
                    break
        except KeyError as error:
            raise ValueError(f"there is no binding for :{error.args[0]}") from error
        finally:
            cursor.close(True)  # noqa: FBT003 - no keyword is taken
        return cutter.rows(columns)

    def _explain(self, error: Exception, guard: Guard, watch: Watch) -> str:
        if guard.refusal is not None:
            return guard.refusal
        if watch.ended is not None:
            return (
                f"The statement was stopped: {watch.ended}. Ask for less at once (WHERE, LIMIT, "
                "no endless recursion), then retry." + self._if_lost()
            )
        text = str(error).rstrip(".")
        if isinstance(error, UnicodeDecodeError):
            text = "A value is no text in UTF-8; select the hex() of it"
        if text == ONE_STATEMENT:
            return "Each call takes one statement. Make a call for each, in order."
        code = getattr(error, "extendedresult", None)
        if code == apsw.SQLITE_BUSY_SNAPSHOT:
            return (
                "Another session has written to the database since this call began to read it. End "
                "the call around this one, then retry that as a whole."
            )
        if code == apsw.SQLITE_BUSY:
            return "Another program is writing to the database. Retry in a moment."
        return (
            f"SQLite says: {text}. Fix the statement or its parameters (sql_schema shows tables "
            "and columns), then retry." + self._if_lost()
        )

    @property
    def _lost(self) -> bool:
        # Some failures (ON CONFLICT ROLLBACK, a stopped write, a full disk) end the transaction,
        # and with it the savepoints of all calls around this one.
        return bool(self._savepoints) and not self._connection.in_transaction

    def _if_lost(self) -> str:
        more = " SQLite has undone the whole transaction, also what calls around this one wrote."
        return more if self._lost and len(self._savepoints) > 1 else ""

    def _refuse_lost(self) -> None:
        if self._lost:
            raise ResourceError(LOST)

    def _end(self, savepoint: str) -> None:
        self._savepoints.remove(savepoint)
        if self._recording is not None and not self._savepoints:
            self._recording.close()
            self._recording = None

    def _undo(self, savepoint: str) -> None:
        if self._connection.in_transaction:
            self._connection.execute(f"ROLLBACK TO {savepoint}")
            self._connection.execute(f"RELEASE {savepoint}")

    def _cannot_open(self, error: apsw.Error) -> ResourceError:
        return ResourceError(
            f"The database cannot be opened ({error}). This requires human intervention: fix "
            "path in [plugins.sqlite], or the file."
        )


@dataclass(frozen=True)
class Opening:
    """Opens the database when it is first asked for.

    Args:
        settings: The plugin's settings, with a path.
    """

    settings: Settings

    @property
    def locked_file(self) -> Path | None:
        """The file, which nobody else can write while a call does; by it the host sees clashes."""
        return self.settings.path if self.settings.writes else None

    def __call__(self, resources: object) -> Database:  # noqa: ARG002 - it needs none
        """Return the database."""
        return Database(self.settings)
