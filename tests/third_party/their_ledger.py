"""A stranger's store of a ledger: one row of JSON a key, in the database of the sessions.

It imports the contract alone. Its claims need no renewing: one program uses it, and looks after
what that left when it died.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from toolstile_hookspecs import LedgerError
from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry, RecordedResult


class TheirLedger:
    """Entries in the table `their_effects`."""

    waits = True
    lease: float | None = None

    def __init__(self, file: str) -> None:
        self.database = file
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def get(self, key: str) -> LedgerEntry | None:
        """Return what is held under a key."""
        with self._connection() as connection:
            return _found(connection, key)

    def claim(self, claim: Claim, *, now: datetime, over: str | None = None) -> LedgerEntry | None:
        """Claim a key."""
        with self._connection() as connection:
            standing = _found(connection, claim.key)
            if standing is not None and not standing.yields_to(now, over):
                return standing
            connection.execute("DELETE FROM their_effects WHERE key = ?", (claim.key,))
            text = _written(LedgerEntry(claim, EffectState.CLAIMED))
            row = (claim.key, claim.effect_id, claim.tool_name, text)
            connection.execute("INSERT INTO their_effects VALUES (?, ?, ?, ?)", row)
            return None

    def finish(
        self, key: str, effect_id: str, result: RecordedResult, expires_at: datetime | None
    ) -> bool:
        """Record what an effect came to."""
        with self._connection() as connection:
            return self.finish_within(connection, key, effect_id, result, expires_at)

    def finish_within(
        self,
        connection: sqlite3.Connection,
        key: str,
        effect_id: str,
        result: RecordedResult,
        expires_at: datetime | None,
        *,
        refusal: Exception | None = None,
    ) -> bool:
        """Record it in a decision of the session store."""
        return _change(connection, key, effect_id, EffectState.DONE, expires_at, result=result)

    def mark_unknown(
        self, key: str, effect_id: str, reason: str, expires_at: datetime | None = None
    ) -> bool:
        """Make an effect unknown."""
        with self._connection() as connection:
            unknown = EffectState.UNKNOWN
            return _change(connection, key, effect_id, unknown, expires_at, reason=reason)

    def release(self, key: str, effect_id: str) -> bool:
        """Forget an effect."""
        forget = "DELETE FROM their_effects WHERE key = ? AND effect = ?"
        with self._connection() as connection:
            return connection.execute(forget, (key, effect_id)).rowcount > 0

    def renew(self, claims: Mapping[str, str]) -> None:
        """Do nothing: claims are held until they are settled."""

    def entries(self, *, tool_name: str | None = None) -> Iterator[LedgerEntry]:
        """Yield the entries, oldest first."""
        with self._connection() as connection:
            rows = connection.execute("SELECT entry FROM their_effects ORDER BY rowid").fetchall()
        entries = [_read(text) for (text,) in rows]
        return (entry for entry in entries if tool_name in (None, entry.claim.tool_name))

    def remove(self, *, key: str | None = None, tool_name: str | None = None) -> int:
        """Remove entries whose claims are not held."""
        return sum(
            self.release(entry.claim.key, entry.claim.effect_id)
            for entry in self.entries(tool_name=tool_name)
            if key in (None, entry.claim.key) and entry.state is not EffectState.CLAIMED
        )

    def prune(self, now: datetime) -> int:
        """Remove what has expired."""
        return sum(
            self.release(entry.claim.key, entry.claim.effect_id)
            for entry in self.entries()
            if entry.yields_to(now, None)
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._open is None:
                    self._open = sqlite3.connect(
                        self.database, isolation_level=None, check_same_thread=False
                    )
                    self._open.execute(_TABLE)
                self._open.execute("BEGIN IMMEDIATE")
                with self._open:
                    yield self._open
            except sqlite3.Error as error:
                raise LedgerError(f"{self.database} cannot be used: {error}. Retry.") from error


_TABLE = (
    "CREATE TABLE IF NOT EXISTS their_effects "
    "(key TEXT PRIMARY KEY, effect TEXT, tool TEXT, entry TEXT)"
)


def _found(connection: sqlite3.Connection, key: str) -> LedgerEntry | None:
    query = "SELECT entry FROM their_effects WHERE key = ?"
    row = connection.execute(query, (key,)).fetchone()
    return None if row is None else _read(row[0])


def _change(
    connection: sqlite3.Connection,
    key: str,
    effect_id: str,
    state: EffectState,
    expires_at: datetime | None,
    **rest: Any,
) -> bool:
    standing = _found(connection, key)
    if standing is None or standing.claim.effect_id != effect_id:
        return False
    text = _written(LedgerEntry(standing.claim, state, expires_at, **rest))
    connection.execute("UPDATE their_effects SET entry = ? WHERE key = ?", (text, key))
    return True


def _written(entry: LedgerEntry) -> str:
    claim, state, expires_at, result, reason, _ = entry
    ends = expires_at and expires_at.isoformat()
    value = result and result.value and result.value.decode()
    plain = result and result._replace(value=None)
    made = claim.created_at.isoformat()
    return json.dumps([claim[:6], made, state, ends, plain, value, reason])


def _read(text: str) -> LedgerEntry:
    claim, made, state, ends, plain, value, reason = json.loads(text)
    result = plain and RecordedResult(*plain)._replace(value=value and value.encode())
    return LedgerEntry(
        Claim(*claim, created_at=datetime.fromisoformat(made)),
        EffectState(state),
        ends and datetime.fromisoformat(ends),
        result,
        reason,
    )
