"""The settlement of effects of which nobody knows whether they have happened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from toolstile_hookspecs import LedgerError, Tool, ToolValidationError
from toolstile_hookspecs.services.ledger import (
    EffectState,
    LedgerEntry,
    LedgerStore,
    SettlesUnknown,
)
from toolstile_plugins.ledger.api import DAY, end_of, read_result
from toolstile_plugins.ledger.entries import is_unsettled

BY_HAND: Final = "A person found out that it has not happened."
UNFIT: Final = "Its recorded value did not fit what the tool returns."


@dataclass(frozen=True, slots=True)
class Finding:
    """A person's finding on an effect.

    Args:
        has_happened: Whether it has happened; else the next call of its key runs.
        message: The message that calls get from here on.
        value: The value that they get, as JSON.
    """

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
    """Record what a person has found out of an unknown effect.

    Args:
        store: The store.
        entry: The entry of the effect, as the person has seen it.
        found: What was found out.
        tool: The effect's tool, which checks the value; None where nothing offers it.
        now: The time.

    Raises:
        LedgerError: The effect is not unknown, or has changed meanwhile, or the value does not fit.
    """
    if not found.has_happened and (found.message is not None or found.value is not None):
        raise LedgerError(
            "What has not happened has no message and no value. Give --done, or leave them out."
        )
    claim = entry.claim
    had_misfit = is_unfit(entry, tool)
    if entry.state is not EffectState.UNKNOWN and not had_misfit:
        raise LedgerError(_nothing_to_resolve(entry, tool))
    if not found.has_happened and entry.state is EffectState.DONE:
        raise LedgerError(
            f"The call {claim.key} is done: it has happened, only {claim.tool_name} returns "
            "something else by now than was recorded. Say what it came to, with --done --value "
            f"JSON; or, if it may happen again, use `toolstile ledger invalidate '{claim.key}'`."
        )
    result = read_result(found.message or "", found.value, tool)
    if had_misfit:
        # No call can use it: from here on it is unknown like others.
        store.doubt(claim.key, claim.effect_id, UNFIT)
    settling = store if is_unsettled(entry) and isinstance(store, SettlesUnknown) else None
    if found.has_happened:
        ttl = DAY if tool is None or tool.idempotency is None else tool.idempotency.ttl
        record = store.finish if settling is None else settling.settle
        kept = record(claim.key, claim.effect_id, result, end_of(now, ttl))
    elif settling is not None:
        # Whatever asks about it meanwhile, one finding counts.
        kept = settling.settle(claim.key, claim.effect_id, BY_HAND, None)
    else:
        # Not removed: what its crash has left behind elsewhere may still have to ask for it.
        kept = store.doubt(claim.key, claim.effect_id, BY_HAND, now)
    if not kept:
        raise LedgerError(
            f"The call {claim.key} changed meanwhile, so nothing was resolved. Look at it again."
        )


def is_unfit(entry: LedgerEntry, tool: Tool[Any, Any] | None) -> bool:
    """Tell whether a value is recorded that the tool cannot return."""
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
