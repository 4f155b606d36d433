"""Marks of a start in a SQLite file, for the processes of one machine."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

from toolstile_hookspecs.services.dispatcher import DispatchOutcome, DispatchState
from toolstile_hookspecs.services.start_marks import StartMark, outcome_of
from toolstile_plugins.sqlite_file import SqliteFile
from toolstile_plugins.workers.recording import KEPT, until_recorded

TABLE: Final = """
CREATE TABLE IF NOT EXISTS toolstile_starts (
    key TEXT NOT NULL PRIMARY KEY,
    token TEXT NOT NULL,
    outcome TEXT,
    made_at REAL NOT NULL
)
"""


class SqliteMarks:
    """Marks in a file.

    Args:
        file: The file; its tables are made by others.
    """

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def begin(
        self,
        key: str,
        token: str,
        *,
        over: str | None = None,
        outcome: DispatchOutcome | None = None,
    ) -> StartMark | None:
        """Make the mark of a key, or replace the one of a token; see `StartMarks`."""
        with self._file.writing() as connection:
            standing = self.get(key)
            if standing is not None and standing.token == token:
                return None
            unknown = standing is None or outcome_of(standing).state is DispatchState.UNKNOWN
            if standing is not None and not (unknown and over == standing.token):
                return standing
            connection.execute(
                "INSERT OR REPLACE INTO toolstile_starts VALUES (?, ?, ?, ?)",
                (key, token, None if outcome is None else outcome.to_json(), time.time()),
            )
            return None

    def finish(self, key: str, token: str, outcome: DispatchOutcome) -> bool:
        """Record what an attempt came to; returns whether the mark was still its own."""
        return until_recorded(lambda: self._finish(key, token, outcome))

    def _finish(self, key: str, token: str, outcome: DispatchOutcome) -> bool:
        with self._file.writing() as connection:
            done = connection.execute(
                "UPDATE toolstile_starts SET outcome = ? WHERE key = ? AND token = ?",
                (outcome.to_json(), key, token),
            )
            return done.rowcount > 0

    def get(self, key: str) -> StartMark | None:
        """Return the mark of a key, None for nothing."""
        rows = self._file.read("SELECT token, outcome FROM toolstile_starts WHERE key = ?", key)
        return mark_of(*rows[0]) if rows else None

    def prune(self, connection: sqlite3.Connection) -> None:
        """Remove outcomes that are older than `KEPT`."""
        connection.execute(
            "DELETE FROM toolstile_starts WHERE outcome IS NOT NULL AND made_at < ?",
            (time.time() - KEPT,),
        )


def mark_of(token: str, outcome: str | None) -> StartMark:
    """Return a mark as its row tells it."""
    return StartMark(token, None if outcome is None else DispatchOutcome.from_json(outcome))
