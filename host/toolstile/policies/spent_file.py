"""The tokens that several hosts have redeemed, in a file that they share."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

DAY: Final = 24 * 60 * 60.0


class SpentInFile:
    """What all hosts remember that share a key, in a SQLite file.

    Args:
        file: The file; made where there is none.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def spend(self, token_id: str, expires: float, now: float) -> bool:
        """Note a token; return whether it is the first time.

        Raises:
            OSError: When it cannot be noted.
        """
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            # The transaction is committed by the inner context, the file closed by the outer.
            with closing(sqlite3.connect(self._file)) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS spent (id TEXT PRIMARY KEY, expires REAL NOT NULL)"
                )
                # The clocks of several machines differ, so an expired one stays for a while.
                database.execute("DELETE FROM spent WHERE expires < ?", (now - DAY,))
                noted = database.execute(
                    "INSERT OR IGNORE INTO spent VALUES (?, ?)", (token_id, expires)
                )
                return noted.rowcount == 1
        except sqlite3.Error as error:
            raise OSError(f"{self._file} cannot be written: {error}") from error
