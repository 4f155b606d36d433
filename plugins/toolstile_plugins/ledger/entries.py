"""The entries of a ledger for those who look at them: where they are, and their form as JSON."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from toolstile_hookspecs import LedgerError, Severity
from toolstile_hookspecs.codecs import MASK
from toolstile_hookspecs.services.ledger import (
    EffectState,
    LedgerEntry,
    LedgerStore,
    RecordedResult,
)
from toolstile_hookspecs.support.text import wire_time
from toolstile_plugins.directories import file_finding
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.memory import MemoryStore


def store_of(settings: LedgerSettings, ledger: EffectLedger) -> LedgerStore:
    """Return the store of a ledger; an empty one in place of a file, which no look makes.

    Raises:
        LedgerError: No file can be there.
    """
    if not settings.is_empty(ledger):
        return ledger.store
    found = file_finding(settings.file, "ledger")
    if found.severity is Severity.ERROR:
        raise LedgerError(f"The ledger {settings.file} cannot be used: {found.text} {found.remedy}")
    return MemoryStore()


def hash_of(entry: LedgerEntry) -> str:
    """Return the hash that names an entry in lists."""
    return sha256(entry.claim.key.encode("utf-8", "surrogatepass")).hexdigest()


class Due(NamedTuple):
    """The deadline of an unsettled effect.

    Args:
        at: The time by which it has to be settled.
        is_over: Whether that is over: it is an alarm.
        owner: Who settles it; None where nobody is named.
    """

    at: datetime
    is_over: bool
    owner: str | None

    def __str__(self) -> str:
        when = f"{'overdue since' if self.is_over else 'to be settled by'} {self.at:%Y-%m-%d %H:%M}"
        return when if self.owner is None else f"{when}, by {self.owner}"


def is_unsettled(entry: LedgerEntry) -> bool:
    """Tell whether nobody has said yet what became of an unknown effect."""
    return entry.state is EffectState.UNKNOWN and entry.expires_at is None


def due_of(entry: LedgerEntry, settings: LedgerSettings, now: datetime) -> Due | None:
    """Return the deadline of an effect; None where it is settled, or its call still runs."""
    if not is_unsettled(entry):
        return None
    at = entry.claim.created_at + timedelta(seconds=settings.settle_within)
    return Due(at, at <= now, settings.owner)


def wire_of(entry: LedgerEntry, due: Due | None = None) -> dict[str, Any]:
    """Return an entry as JSON data."""
    claim, result = entry.claim, entry.result
    wire: dict[str, Any] = {
        "key": claim.key,
        "hash": hash_of(entry),
        "tool": claim.tool_name,
        "state": str(entry.state),
        "paramsHash": claim.params_hash,
        "effectId": claim.effect_id,
        "sessionId": claim.session_id,
        "callId": claim.call_id,
        "createdAt": wire_time(claim.created_at),
        "expiresAt": None if entry.expires_at is None else wire_time(entry.expires_at),
    }
    if result is not None:
        wire["message"] = unless_secret(result, result.message)
        wire["value"] = unless_secret(result, _read(result.value))
        wire["excluded"] = result.excluded
        wire["changes"] = unless_secret(result, _read(result.changes))
    if entry.reason is not None:
        wire["reason"] = entry.reason
    if claim.params is not None:
        wire["params"] = _read(claim.params)
    if due is not None:
        wire |= {"dueAt": wire_time(due.at), "overdue": due.is_over, "owner": due.owner}
    return wire


def unless_secret(result: RecordedResult, shown: Any) -> Any:
    """Return a part of a result, masked if the result holds a secret."""
    return MASK if result.secret and shown else shown


def _read(text: str | bytes | None) -> Any:
    return None if text is None else json.loads(text)
