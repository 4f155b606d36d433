"""The entries of a ledger for those who look at them: where they are, and their form as JSON."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from toolstile_hookspecs import LedgerError, Severity
from toolstile_hookspecs.codecs import MASK
from toolstile_hookspecs.services.ledger import LedgerEntry, LedgerStore, RecordedResult
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
    found = file_finding(settings.path, "ledger")
    if found.severity is Severity.ERROR:
        raise LedgerError(f"The ledger {settings.path} cannot be used: {found.text} {found.remedy}")
    return MemoryStore()


def hash_of(entry: LedgerEntry) -> str:
    """Return the hash that names an entry in lists."""
    return sha256(entry.claim.key.encode("utf-8", "surrogatepass")).hexdigest()


def wire_of(entry: LedgerEntry) -> dict[str, Any]:
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
    return wire


def unless_secret(result: RecordedResult, shown: Any) -> Any:
    """Return a part of a result, masked if the result holds a secret."""
    return MASK if result.secret and shown else shown


def _read(text: str | bytes | None) -> Any:
    return None if text is None else json.loads(text)
