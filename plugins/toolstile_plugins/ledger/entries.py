"""The entries of a ledger for commands and the console: lists, JSON, and resolving by a person."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import (
    HostHandle,
    LedgerError,
    Severity,
    StatusPart,
    Tool,
    ToolValidationError,
)
from toolstile_hookspecs.codecs import MASK
from toolstile_hookspecs.services.ledger import (
    EffectState,
    LedgerEntry,
    LedgerStore,
    RecordedResult,
    SettlesUnknown,
)
from toolstile_hookspecs.support.text import wire_time
from toolstile_plugins.directories import file_finding
from toolstile_plugins.ledger.api import DAY, EffectLedger, end_of, is_unsettled, read_result
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.memory import MemoryStore
from toolstile_plugins.ledger.stores.sqlite import LAPSED, SqliteStore
from toolstile_plugins.ledger.undoing import UNDONE
from toolstile_plugins.screen import shown_time


def store_of(ledger: EffectLedger) -> LedgerStore:
    """Return the store of a ledger; an empty one if the file is missing, because no look makes it.

    Raises:
        LedgerError: The file cannot be made.
    """
    store = ledger.store
    if (file := file_of(store)) is None or file.exists():
        return store
    found = file_finding(file, "ledger")
    if found.severity is Severity.ERROR:
        raise LedgerError(f"The ledger {file} cannot be used: {found.text} {found.remedy}")
    return MemoryStore()


def file_of(store: LedgerStore) -> Path | None:
    """Return the SQLite file of a store, or None."""
    return store.path if isinstance(store, SqliteStore) else None


def place_of(store: LedgerStore) -> str:
    """Return the place of a store, for a person to read."""
    if type(store) is MemoryStore:
        return "memory"
    return str(file_of(store) or type(store).__qualname__)


def hash_of(entry: LedgerEntry) -> str:
    """Return the hash that names an entry in lists."""
    return sha256(entry.claim.key.encode("utf-8", "surrogatepass")).hexdigest()


class Due(NamedTuple):
    """The deadline for a person, the owner, to resolve an unsettled effect."""

    at: datetime
    is_over: bool
    owner: str | None

    def __str__(self) -> str:
        when = f"{'overdue since' if self.is_over else 'to be settled by'} {self.at:%Y-%m-%d %H:%M}"
        return when if self.owner is None else f"{when}, by {self.owner}"


def due_of(entry: LedgerEntry, settings: LedgerSettings, now: datetime) -> Due | None:
    """Return the deadline of an effect; None if it is settled, or its call still runs."""
    if not is_unsettled(entry):
        return None
    at = entry.claim.created_at + timedelta(seconds=settings.settle_within)
    return Due(at, at <= now, settings.owner)


def state_of(entry: LedgerEntry) -> str:
    """Return the state; of an undo `owed`, `undoing`, `undone` or `undo unknown`."""
    owed, state = entry.claim.owed_id, entry.state
    has_begun = owed not in {None, entry.claim.effect_id}
    if has_begun and state is EffectState.CLAIMED:
        return "undoing"
    if is_undo_owed(entry):
        return "undo unknown" if has_begun and entry.reason == LAPSED else "owed"
    return "undone" if entry.reason == UNDONE else str(state)


def is_undo_owed(entry: LedgerEntry) -> bool:
    """Return whether an effect is to be undone."""
    return bool(entry.claim.owed_id) and is_unsettled(entry)


def owed_in(host: HostHandle) -> StatusPart:
    """Return the effects that are to be undone, or whose undo runs."""
    with host.executor() as tools:
        entries = store_of(tools.resources.get(EffectLedger)).entries()
        owed = [each for each in entries if is_undo_owed(each) or state_of(each) == "undoing"]
    lines = [
        f"Owed: the undo of {each.claim.tool_name}, {shown_time(each.claim.created_at)}: "
        f"{each.claim.key}"
        for each in owed
    ]
    lines += (
        ["Open hosts try again. Try at once with `toolstile ledger reconcile`."] if owed else []
    )
    return StatusPart("owed", [*map(wire_of, owed)], lines)


def wire_of(entry: LedgerEntry, due: Due | None = None) -> dict[str, Any]:
    """Return an entry as JSON data."""
    claim, result = entry.claim, entry.result
    wire: dict[str, Any] = {
        "key": claim.key,
        "hash": hash_of(entry),
        "tool": claim.tool_name,
        "state": state_of(entry),
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
    """Return a part of a result, masked if the result contains a secret."""
    return MASK if result.secret and shown else shown


def _read(text: str | bytes | None) -> Any:
    return None if text is None else json.loads(text)


BY_HAND: Final = "A person found out that it has not happened."
UNFIT: Final = "Its recorded value did not fit the return type of the tool."


@dataclass(frozen=True, slots=True)
class Finding:
    """A person's finding on an effect, with the message and value (as JSON) for later calls."""

    has_happened: bool
    message: str | None = None
    value: str | None = None


def settle(
    store: LedgerStore,
    entry: LedgerEntry,
    found: Finding,
    *,
    tool: Tool[Any, Any] | None,
    now: datetime,
) -> None:
    """Record the finding of a person about an unknown effect, whose tool checks the value.

    Of an owed undo, the finding tells whether the undo has happened.

    Raises:
        LedgerError: The effect is not unknown, or has changed meanwhile, or the value does not fit.
    """
    if not found.has_happened and (found.message is not None or found.value is not None):
        raise LedgerError(
            "A call that has not happened has no message and no value. Give --done, or neither."
        )
    claim, is_owed = entry.claim, is_undo_owed(entry)
    if is_owed and (not found.has_happened or found.message is not None or found.value is not None):
        raise LedgerError(
            f"The undo of {claim.key} stays owed: `toolstile ledger reconcile '{claim.key}'` tries "
            "it now. If the undo has happened, give --done alone."
        )
    had_misfit = is_unfit(entry, tool)
    if entry.state is not EffectState.UNKNOWN and not had_misfit:
        raise LedgerError(_nothing_to_resolve(entry, tool))
    if not found.has_happened and entry.state is EffectState.DONE:
        raise LedgerError(
            f"The call {claim.key} is done: it has happened, but {claim.tool_name} now returns "
            "another type than the recorded one. Give its result with --done --value JSON; or, if "
            f"it may happen again, use `toolstile ledger invalidate '{claim.key}'`."
        )
    result = read_result(found.message or "", found.value, tool)
    if had_misfit:
        # Because no call can use the value, the effect becomes unknown like others.
        store.mark_unknown(claim.key, claim.effect_id, UNFIT)
    settling = store if is_unsettled(entry) and isinstance(store, SettlesUnknown) else None
    reason = UNDONE if is_owed else BY_HAND
    if found.has_happened and not is_owed:
        ttl = DAY if tool is None or tool.idempotency is None else tool.idempotency.ttl
        record = store.finish if settling is None else settling.settle
        kept = record(claim.key, claim.effect_id, result, end_of(now, ttl))
    elif settling is not None:
        # Because a process may ask about it at the same time, the store takes one finding only.
        kept = settling.settle(claim.key, claim.effect_id, reason, None)
    else:
        # Not removed, because the recovery of a workspace after the crash may still ask for it.
        kept = store.mark_unknown(claim.key, claim.effect_id, reason, now)
    if not kept:
        raise LedgerError(
            f"The call {claim.key} changed meanwhile, so nothing was resolved. Look at it again."
        )


def is_unfit(entry: LedgerEntry, tool: Tool[Any, Any] | None) -> bool:
    """Return whether the recorded value is of a type that the tool cannot return."""
    if tool is None or entry.result is None or entry.result.value is None:
        return False
    try:
        tool.result_codec.decode(entry.result.value)
    except ToolValidationError:
        return True
    return False


def _nothing_to_resolve(entry: LedgerEntry, tool: Tool[Any, Any] | None) -> str:
    name, key = entry.claim.tool_name, entry.claim.key
    text = (
        f"The call {key} is {entry.state}, so there is nothing to resolve. Look at it with "
        f"`toolstile ledger show '{key}'`."
    )
    if tool is None and entry.state is EffectState.DONE:
        text += (
            f" If its value does not fit, load the plugin that offers {name}, with --plugin "
            "FILE.py, say; then it can be resolved again."
        )
    return text
