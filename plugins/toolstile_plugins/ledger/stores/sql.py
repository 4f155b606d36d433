"""The base of stores in databases: each operation is one or two statements.

The statements run on SQLite of the last ten years and on PostgreSQL. A statement that changes an
entry names the effect that it expects, so that only one caller succeeds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from toolstile_hookspecs import LedgerError, StateError
from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry, RecordedResult
from toolstile_plugins.ledger.stores.memory import PAST

Row = Sequence[Any]

COLUMNS: Final = (
    "key, tool_name, params_hash, effect_id, session_id, call_id, created_at, "
    "state, expires_at, message, value, excluded, changes, unportable, reason, owner, lease, secret"
)
"""Until an effect is done, `value` has its params, and `message` the token of its hold."""
PAGE: Final = 1000
"""The entries that a check of all of them reads at once."""
LAPSED: Final = "Its process ended, or stopped renewing its claim, before the outcome was recorded."

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

TABLE: Final = """\
CREATE TABLE IF NOT EXISTS toolstile_effects (
    key TEXT NOT NULL PRIMARY KEY,
    tool_name TEXT NOT NULL,
    params_hash TEXT NOT NULL,
    effect_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    created_at {integer} NOT NULL,
    state TEXT NOT NULL,
    expires_at {integer},
    message {bytes},
    value {bytes},
    excluded {flag} NOT NULL DEFAULT 0,
    changes {bytes},
    unportable TEXT,
    reason TEXT,
    owner TEXT NOT NULL,
    lease {lease} NOT NULL,
    secret {flag} NOT NULL DEFAULT 0
)"""
"""The table, with places for the types of a database."""
OPEN: Final = (
    "CREATE INDEX IF NOT EXISTS toolstile_effects_open ON toolstile_effects (created_at, key) "
    "WHERE state <> 'done'"
)
"""The index of the effects whose outcome is unknown, which are few."""
_INSERT: Final = (
    "INSERT INTO toolstile_effects (key, tool_name, params_hash, effect_id, session_id, call_id, "
    "created_at, value, state, owner, lease) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'claimed', ?, {lease}) "
    "ON CONFLICT (key) DO NOTHING"
)
_TAKE_OVER: Final = (
    "UPDATE toolstile_effects SET tool_name = ?, params_hash = ?, effect_id = ?, session_id = ?, "
    "call_id = ?, created_at = ?, value = ?, state = 'claimed', owner = ?, lease = {lease}, "
    "expires_at = NULL, message = NULL, excluded = 0, changes = NULL, "
    "unportable = NULL, secret = 0, reason = NULL "
    # The conditions of `LedgerEntry.yields_to`, because the row may have changed since the SELECT.
    "WHERE key = ? AND effect_id = ? AND state <> 'claimed' "
    "AND (expires_at <= ? OR (state = 'unknown' AND effect_id = ?))"
)
FINISH: Final = (
    "UPDATE toolstile_effects SET state = 'done', expires_at = ?, message = ?, value = ?, "
    "excluded = ?, changes = ?, unportable = ?, secret = ?, reason = NULL "
    "WHERE key = ? AND effect_id = ?"
)
_MARK_UNKNOWN: Final = (
    # Because the value of a done effect is its result, not its params.
    "UPDATE toolstile_effects SET value = CASE WHEN state = 'done' THEN NULL ELSE value END, "
    "state = 'unknown', reason = ?, expires_at = ?, message = NULL, changes = NULL, "
    "unportable = NULL, owner = '', lease = {lease} WHERE key = ? AND effect_id = ?"
)
_UNSETTLED: Final = " AND state = 'unknown' AND expires_at IS NULL"
_UNDER_HOLD: Final = " AND message = ?"
_HOLD: Final = (
    "UPDATE toolstile_effects SET message = ?, owner = ?, lease = {lease} "
    "WHERE key = ? AND effect_id = ? AND owner = ? AND lease = ?"
)
_DEFER: Final = (
    "UPDATE toolstile_effects SET message = NULL, owner = '', lease = {lease} "
    "WHERE key = ? AND effect_id = ? AND message = ?"
)
_EXPIRE: Final = (
    "UPDATE toolstile_effects SET expires_at = ?, reason = ? WHERE key = ? AND effect_id = ?"
)
_LAPSE: Final = (
    "UPDATE toolstile_effects SET state = 'unknown', reason = ? "
    "WHERE key = ? AND effect_id = ? AND state = 'claimed' AND lease = ?"
)
_RENEW: Final = (
    "UPDATE toolstile_effects SET lease = {lease} "
    "WHERE key = ? AND effect_id = ? AND state <> 'done'"
)
_RELEASE: Final = "DELETE FROM toolstile_effects WHERE key = ? AND effect_id = ?"
_PRUNE: Final = "DELETE FROM toolstile_effects WHERE expires_at <= ? AND state <> 'claimed'"


_UNREADABLE: Final = (ValueError, TypeError, OverflowError, AttributeError)
"""The errors of a row with values that no store has written."""


class SqlStore(ABC):
    """A ledger's entries in the table `toolstile_effects` of a database.

    Subclasses tell whether a claim has lapsed.
    """

    waits = True
    _columns: str = COLUMNS
    """The selected columns, and the values that `_is_lapsed` looks at."""
    _lease_now: str = "?"
    """The SQL of a lease that begins now, with a place for each of `_lease_values`."""

    def __init__(self, database: Any, lease: float) -> None:
        self._database = database
        self.lease: float | None = lease
        self._seconds = lease
        select = f"SELECT {self._columns} FROM toolstile_effects"  # noqa: S608 - our own columns
        self._select_one = f"{select} WHERE key = ?"
        self._select_all = f"{select} ORDER BY created_at, key"
        self._select_page = f"{select} WHERE key > ? ORDER BY key LIMIT {PAGE}"
        self._select_of_tool = f"{select} WHERE tool_name = ? ORDER BY created_at, key"
        self._insert = _INSERT.replace("{lease}", self._lease_now)
        self._take_over = _TAKE_OVER.replace("{lease}", self._lease_now)
        self._renew = _RENEW.replace("{lease}", self._lease_now)
        self._mark_unknown = _MARK_UNKNOWN.replace("{lease}", self._lease_now)
        self._hold = _HOLD.replace("{lease}", self._lease_now) + _UNSETTLED
        self._defer = _DEFER.replace("{lease}", self._lease_now) + _UNSETTLED
        # The first condition is the one of the index, because SQLite does not derive it.
        open_ones = "(state = 'claimed' OR (state = 'unknown' AND expires_at IS NULL))"
        self._select_open = (
            f"{select} WHERE state <> 'done' AND {open_ones} ORDER BY created_at, key"
        )

    @property
    def database(self) -> str:
        """The file or address, as a session store in it names it, too."""
        return str(self._database.database)

    def close(self) -> None:
        """Close the database; the next use opens it again. A fork leaves its parent's open."""
        self._database.close()

    def _read(self, query: str, *values: Any) -> list[Any]:
        try:
            return cast("list[Any]", self._database.read(query, *values))
        except StateError as error:
            raise LedgerError(str(error)) from error

    def _change(self, statement: str, *values: Any) -> int:
        # PostgreSQL may run it again if an answer was lost, because it names the effect it expects.
        try:
            return int(self._database.change(statement, *values))
        except StateError as error:
            raise LedgerError(str(error)) from error

    @abstractmethod
    def _is_lapsed(self, row: Row) -> bool:
        """Return whether the claim or hold in a row has lapsed."""

    @abstractmethod
    def _owner(self) -> str:
        """Return the text that stands for this process."""

    @abstractmethod
    def _lease_value(self, seconds: float | None = None) -> float:
        """Return the value for `_lease_now`; `seconds` in place of the store's own lease."""

    def get(self, key: str) -> LedgerEntry | None:
        """Return the entry of a key."""
        rows = self._read(self._select_one, key)
        return self._entry(rows[0]) if rows else None

    def claim(self, claim: Claim, *, now: datetime, over: str | None = None) -> LedgerEntry | None:
        """Claim a key; return the entry that prevents it, or None."""
        # Without a SELECT first, because most keys are new.
        while not self._change(self._insert, *self._claimed(claim)):
            standing = self._standing(claim.key)
            if standing is None:
                continue
            if standing.claim.effect_id == claim.effect_id:
                # The claim was made before, and its answer was lost.
                return None
            if not standing.yields_to(now, over):
                return standing
            standing_id, (_, *values) = standing.claim.effect_id, self._claimed(claim)
            if self._change(self._take_over, *values, claim.key, standing_id, _written(now), over):
                return None
        return None

    def finish(
        self, key: str, effect_id: str, result: RecordedResult, expires_at: datetime | None
    ) -> bool:
        """Record the result of a claimed or unknown effect."""
        return self._change(FINISH, *finished(key, effect_id, result, expires_at)) > 0

    def mark_unknown(
        self, key: str, effect_id: str, reason: str, expires_at: datetime | None = None
    ) -> bool:
        """Make an effect unknown."""
        values = _shown(reason), _written(expires_at), self._lease_value(0), key, effect_id
        return self._change(self._mark_unknown, *values) > 0

    def unsettled(self) -> Iterator[LedgerEntry]:
        """Yield the unsettled effects, oldest first."""
        entries = map(self._entry, self._read(self._select_open))
        return (entry for entry in entries if entry.state is EffectState.UNKNOWN)

    def hold(self, key: str, effect_id: str, token: str, *, at_once: bool = False) -> bool:
        """Hold an unsettled effect that is free."""
        self._standing(key)
        for row in self._read(self._select_one, key):
            owner, lease = row[15], row[16]
            if self._is_lapsed(row) or (at_once and not owner):
                values = token.encode(), self._owner(), self._lease_value()
                return self._change(self._hold, *values, key, effect_id, owner, lease) > 0
        return False

    def defer(self, key: str, effect_id: str, token: str, seconds: float) -> bool:
        """Release a hold for some seconds."""
        values = self._lease_value(seconds), key, effect_id, token.encode()
        return self._change(self._defer, *values) > 0

    def settle(
        self,
        key: str,
        effect_id: str,
        found: RecordedResult | str,
        expires_at: datetime | None,
        *,
        token: str | None = None,
    ) -> bool:
        """Record whether an unsettled effect has happened."""
        statement, values = _EXPIRE, cast("Row", (_written(PAST), found, key, effect_id))
        if isinstance(found, RecordedResult):
            statement, values = FINISH, finished(key, effect_id, found, expires_at)
        statement += _UNSETTLED
        if token is None:
            # Because its claim may have lapsed, which is not written yet.
            self._standing(key)
        else:
            statement, values = statement + _UNDER_HOLD, (*values, token.encode())
        return self._change(statement, *values) > 0

    def release(self, key: str, effect_id: str) -> bool:
        """Forget an effect."""
        return self._change(_RELEASE, key, effect_id) > 0

    def renew(self, claims: Mapping[str, str]) -> None:
        """Extend claims by another lease."""
        for effect_id, key in claims.items():
            self._change(self._renew, self._lease_value(), key, effect_id)

    def entries(self, *, tool_name: str | None = None) -> Iterator[LedgerEntry]:
        """Yield the entries, oldest first."""
        if tool_name is None:
            return map(self._entry, self._read(self._select_all))
        return map(self._entry, self._read(self._select_of_tool, tool_name))

    def remove(self, *, key: str | None = None, tool_name: str | None = None) -> int:
        """Remove entries, except of live claims."""
        # First, because only the claims that have not lapsed are kept.
        for (lapsing,) in self._read("SELECT key FROM toolstile_effects WHERE state = 'claimed'"):
            self._standing(lapsing)
        statement = "DELETE FROM toolstile_effects WHERE state <> 'claimed'"
        values: list[str] = []
        for column, value in (("key", key), ("tool_name", tool_name)):
            if value is not None:
                statement += f" AND {column} = ?"
                values.append(value)
        return self._change(statement, *values)

    def prune(self, now: datetime) -> int:
        """Remove expired entries."""
        return self._change(_PRUNE, _written(now))

    def _standing(self, key: str) -> LedgerEntry | None:
        """Return the entry of a key, made unknown if its claim has lapsed."""
        rows = self._read(self._select_one, key)
        if not rows:
            return None
        entry = self._entry(rows[0])
        if rows[0][7] == entry.state:
            return entry
        lapsed = self._change(_LAPSE, LAPSED, key, entry.claim.effect_id, rows[0][16])
        return entry if lapsed else self._standing(key)

    def _claimed(self, claim: Claim) -> tuple[Any, ...]:
        created = _written(claim.created_at)
        return (*claim[:6], created, claim.params, self._owner(), self._lease_value())

    def damaged(self) -> Iterator[str]:
        """Yield the keys of entries that cannot be read."""
        rows = self._read(self._select_page, "")
        while rows:
            for row in rows:
                try:
                    self._entry(row)
                except LedgerError:
                    yield str(row[0])
            rows = self._read(self._select_page, rows[-1][0])

    def _entry(self, row: Row) -> LedgerEntry:
        try:
            state, reason, value = EffectState(row[7]), row[14], row[10]
            if state is EffectState.CLAIMED and self._is_lapsed(row):
                state, reason = EffectState.UNKNOWN, LAPSED
            result = kept = None
            if state is EffectState.DONE:
                changes = None if row[12] is None else _decoded(row[12])
                result = RecordedResult(
                    _decoded(row[9]), value, bool(row[11]), changes, row[13], bool(row[17])
                )
            else:
                kept = value
            key, tool, params, effect, session, call = row[:6]
            claim = Claim(key, tool, params, effect, session, call, _moment(row[6]), kept)
            expires_at = None if row[8] is None else _moment(row[8])
            return LedgerEntry(claim, state, expires_at, result, reason, row[15])
        except _UNREADABLE as error:
            raise LedgerError(
                "An entry of the ledger is damaged. `toolstile doctor` names its row."
            ) from error


def finished(
    key: str, effect_id: str, result: RecordedResult, expires_at: datetime | None
) -> tuple[Any, ...]:
    """Return the values of `FINISH`."""
    return (
        _written(expires_at),
        _encoded(result.message),
        result.value,
        int(result.excluded),
        None if result.changes is None else _encoded(result.changes),
        None if result.unportable is None else _shown(result.unportable),
        int(result.secret),
        key,
        effect_id,
    )


def _written(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _encoded(text: str) -> bytes:
    # As bytes, because databases refuse texts with zeros or lone surrogates.
    return text.encode("utf-8", "surrogatepass")


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")


def _shown(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
