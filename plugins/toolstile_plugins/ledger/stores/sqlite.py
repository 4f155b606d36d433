"""A ledger's entries in a database: the base of such stores, and the store in a SQLite file.

The statements of the base run on SQLite of the last ten years and on PostgreSQL. A statement that
changes an entry names the effect that it expects, so that only one caller succeeds.
"""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, cast

from toolstile_hookspecs import (
    ConfigurationError,
    Durability,
    LedgerError,
    ResourceResolver,
    StateError,
)
from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry, RecordedResult
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.leases import Process
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.memory import PAST
from toolstile_plugins.sqlite_file import SqliteFile, SqlTables

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
_OWE: Final = (
    "UPDATE toolstile_effects SET state = 'unknown', value = ?, reason = ?, expires_at = NULL, "
    "message = NULL, excluded = 0, changes = NULL, unportable = NULL, secret = 0, owner = '', "
    "lease = {lease} WHERE key = ? AND effect_id = ? AND state = ?"
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


class SqlStore(SqlTables, ABC):
    """A ledger's entries in the table `toolstile_effects` of a database.

    Subclasses tell whether a claim has lapsed.
    """

    _columns: str = COLUMNS
    """The selected columns, and the values that `_is_lapsed` looks at."""
    _lease_now: str = "?"
    """The SQL of a lease that begins now, with a place for each of `_lease_values`."""

    def __init__(self, database: Any, lease: float) -> None:
        super().__init__(database)
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
        self._owe = _OWE.replace("{lease}", self._lease_now)
        self._hold = _HOLD.replace("{lease}", self._lease_now) + _UNSETTLED
        self._defer = _DEFER.replace("{lease}", self._lease_now) + _UNSETTLED
        # The first condition is the one of the index, because SQLite does not derive it.
        open_ones = "(state = 'claimed' OR (state = 'unknown' AND expires_at IS NULL))"
        self._select_open = (
            f"{select} WHERE state <> 'done' AND {open_ones} ORDER BY created_at, key"
        )

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

    def _owner(self) -> str:
        """Return the text that stands for this process."""
        return str(Process.current())

    def _lease_value(self, seconds: float | None = None) -> float:
        """Return the value for `_lease_now`; `seconds` in place of the store's own lease."""
        return self._seconds if seconds is None else seconds

    def get(self, key: str) -> LedgerEntry | None:
        rows = self._read(self._select_one, key)
        return self._entry(rows[0]) if rows else None

    def claim(self, claim: Claim, *, now: datetime, over: str | None = None) -> LedgerEntry | None:
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
        return self._change(FINISH, *finished(key, effect_id, result, expires_at)) > 0

    @contextmanager
    def together(self) -> Generator[None]:
        """Make the changes that the block makes on this thread one transaction."""
        try:
            with self._database.writing():
                yield
        except StateError as error:
            raise LedgerError(str(error)) from error

    def mark_unknown(
        self, key: str, effect_id: str, reason: str, expires_at: datetime | None = None
    ) -> bool:
        values = _shown(reason), _written(expires_at), self._lease_value(0), key, effect_id
        return self._change(self._mark_unknown, *values) > 0

    def owe(self, claim: Claim, reason: str, was: EffectState, connection: Any = None) -> bool:
        lease, effect = self._lease_value(0), (claim.key, claim.effect_id)
        values = claim.params, _shown(reason), lease, *effect, str(was)
        if connection is None:
            return self._change(self._owe, *values) > 0
        # A connection to PostgreSQL names its transaction.
        within = getattr(connection, "within", None) or connection
        return int(within.execute(self._owe, values).rowcount) > 0

    def unsettled(self) -> Iterator[LedgerEntry]:
        entries = map(self._entry, self._read(self._select_open))
        return (entry for entry in entries if entry.state is EffectState.UNKNOWN)

    def hold(self, key: str, effect_id: str, token: str, *, at_once: bool = False) -> bool:
        self._standing(key)
        for row in self._read(self._select_one, key):
            owner, lease = row[15], row[16]
            if self._is_lapsed(row) or (at_once and not owner):
                values = token.encode(), self._owner(), self._lease_value()
                return self._change(self._hold, *values, key, effect_id, owner, lease) > 0
        return False

    def defer(self, key: str, effect_id: str, token: str, seconds: float) -> bool:
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
        return self._change(_RELEASE, key, effect_id) > 0

    def renew(self, claims: Mapping[str, str]) -> None:
        for effect_id, key in claims.items():
            self._change(self._renew, self._lease_value(), key, effect_id)

    def entries(self, *, tool_name: str | None = None) -> Iterator[LedgerEntry]:
        if tool_name is None:
            return map(self._entry, self._read(self._select_all))
        return map(self._entry, self._read(self._select_of_tool, tool_name))

    def remove(self, *, key: str | None = None, tool_name: str | None = None) -> int:
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


VERSION: Final = 1
_OURS: Final = ("toolstile_", "sqlite_")
"""The beginnings of the names of our tables, and of tables that SQLite makes."""
_SPENT: Final = "spent"
"""The table of used approvals, which a host may make in the file before the ledger."""
_TABLE: Final = TABLE.format(integer="INTEGER", bytes="BLOB", flag="INTEGER", lease="REAL")
# `OR IGNORE`, because `ON CONFLICT` needs SQLite 3.24.
_ON_CONFLICT: Final = " ON CONFLICT (key) DO NOTHING"
_INTO: Final = ("INSERT INTO", "INSERT OR IGNORE INTO")


class SqliteStore(SqlStore):
    """Entries in a file, in WAL mode, in which readers and a writer do not block one another.

    A claim lasts as long as its process lives. If that is unknown, as in another container, the
    lease counts, by the monotonic clock of the machine. The file must be on a disk of this machine.

    Args:
        path: The file; the first use makes it, and the directories above.
        durability: `power` waits for the disk twice a call; see `Durability`.
        lease: Seconds after which a claim lapses that is not renewed.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, durability: Durability = "power", lease: float = 30.0
    ) -> None:
        self.path = Path(path)
        check = partial(_check_usable, file=self.path)
        super().__init__(SqliteFile(self.path, durability, "ledger", _prepare, check=check), lease)
        self._insert = self._insert.replace(*_INTO).removesuffix(_ON_CONFLICT)

    def finish_within(  # noqa: PLR0913 - the protocol's
        self,
        connection: sqlite3.Connection,
        key: str,
        effect_id: str,
        result: RecordedResult,
        expires_at: datetime | None,
        *,
        refusal: Exception | None = None,  # noqa: ARG002 - the answer is there at once
    ) -> bool:
        """Record a result in a transaction of a session store, open in the same file."""
        values = finished(key, effect_id, result, expires_at)
        return connection.execute(FINISH, values).rowcount > 0

    def take_over(self, path: Path) -> int:
        """Move the entries of another file here, and return their number; entries here stay.

        Raises:
            LedgerError: A call of the other file is running.
        """
        with closing(SqliteStore(path, lease=self._seconds)) as old:
            if any(entry.state is EffectState.CLAIMED for entry in old.entries()):
                raise LedgerError(
                    f"A host runs a call that is recorded in {path}. Stop the host, then retry."
                )
            # On the reader, because a writer cannot attach a file within its transaction.
            run = self._read
            run("ATTACH ? AS other", str(path))
            try:
                # Two transactions, because SQLite commits to one file first, and none may lose.
                run(
                    "INSERT OR IGNORE INTO main.toolstile_effects SELECT * "
                    "FROM other.toolstile_effects"
                )
                ((taken,),) = run("SELECT changes()")
                run("DELETE FROM other.toolstile_effects")
            finally:
                run("DETACH other")
        return int(taken)

    def _lease_value(self, seconds: float | None = None) -> float:
        return monotonic() + super()._lease_value(seconds)

    def _is_lapsed(self, row: Row) -> bool:
        owner, lease = row[15], row[16]
        # An unknown effect has no owner until a reconciler holds it.
        lives = Process.read(owner).lives() if owner else None
        if lives is not None:
            return not lives
        # A lease that ends later than any new lease is of an earlier boot.
        now = monotonic()
        return not now < lease <= now + max(self._seconds, 3600.0)


def file_store(
    settings: LedgerSettings, resources: ResourceResolver, now: datetime | None
) -> SqliteStore:
    """Return the store in the ledger's own file, or in the file of stored sessions.

    Args:
        settings: The settings.
        resources: The resources of the host, with the store of sessions.
        now: The time; None for a host that only looks.

    Raises:
        ConfigurationError: The ledger's own file has entries that still count, and stored
            sessions keep the ledger in another file.
    """
    file = settings.path
    sessions: SessionStore | None = resources.get(SessionStore, None)  # type: ignore[type-abstract]
    stored = getattr(sessions, "file", None)
    # Because a call of a stored session is decided once, its record is in the same file.
    if "path" not in settings.model_fields_set and isinstance(stored, SqliteFile):
        file = stored.path
        if now is not None and has_entries_left(settings.path, file, now):
            raise ConfigurationError(
                f"Stored sessions keep the ledger in {file}, and {settings.path} has entries "
                "that still count: their calls would run again. Stop the hosts that use it, "
                f'and run `toolstile ledger move`, or set path = "{settings.path}" in both '
                "[plugins.ledger] and [plugins.sessions]."
            )
    return SqliteStore(file, durability=settings.durability, lease=settings.lease)


def has_entries_left(own: Path, file: Path, now: datetime) -> bool:
    """Tell whether the ledger's own file has entries that still count, beside the file in use."""
    if not own.exists() or os.path.realpath(own) == os.path.realpath(file):
        return False
    with closing(SqliteStore(own)) as store:
        return any(
            each.expires_at is None or each.expires_at > now or each.state == "claimed"
            for each in store.entries()
        )


def _prepare(connection: sqlite3.Connection) -> None:
    if _version_of(connection) != VERSION:
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute(OPEN)


def fault_of(connection: sqlite3.Connection) -> tuple[str, str] | None:
    """Return why a database cannot be a ledger of this Toolstile, and a remedy; None if it can."""
    version = _version_of(connection)
    if version not in (0, VERSION):
        told = (
            f"It is of version {version}, which this Toolstile does not know (it knows {VERSION})."
        )
        return told, "Use the Toolstile that wrote it, or another file."
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    foreign = [name for name in tables - {_SPENT} if not name.startswith(_OURS)]
    if "toolstile_effects" in tables or not (foreign or version):
        return None
    return "It is not a ledger, but a database of something else.", "Name another file."


def _version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _check_usable(connection: sqlite3.Connection, file: Path) -> None:
    """Raise `LedgerError` if the file is no ledger, before anything in it changes."""
    if (fault := fault_of(connection)) is not None:
        told = " ".join(fault).removeprefix("It")
        raise LedgerError(f"The ledger {file} cannot be used: it{told}")
