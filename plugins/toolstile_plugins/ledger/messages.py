"""Messages of the ledger to a model."""

from __future__ import annotations

import logging

from toolstile_hookspecs import CallRefused, LedgerError
from toolstile_hookspecs.services.ledger import LedgerEntry, LedgerStore
from toolstile_hookspecs.support.text import for_model

log = logging.getLogger("toolstile.ledger")


def failure(store: LedgerStore, error: Exception) -> LedgerError:
    """Return any exception of a store as a `LedgerError`."""
    if isinstance(error, LedgerError):
        return error
    log.debug("The ledger's store has failed.", exc_info=error)
    what = type(error).__name__
    # Because the text of another exception may be secret, only its type is named.
    if isinstance(error, OSError) and error.strerror:
        what = f"{what}: {error.strerror}"
    return LedgerError(
        f"The ledger's store {type(store).__name__} has failed ({what}). Repair the store."
    )


def other_params(entry: LedgerEntry) -> CallRefused:
    """Say that the key belongs to a call with other params."""
    name = entry.claim.tool_name
    return CallRefused(
        f"{name} was not run: an earlier call with the same idempotency key had other arguments, "
        f"and one key stands for one effect. Repeat the earlier arguments to get its result, or "
        "change the arguments that make the key, then retry."
    )


def under_way(entry: LedgerEntry) -> CallRefused:
    """Say that the same call is running elsewhere."""
    return CallRefused(
        f"{entry.claim.tool_name} was not run: the same call is already in progress and has not "
        "ended yet. Wait a little, then retry to get its result."
    )


def unknown(entry: LedgerEntry, *, is_asked: bool = False) -> CallRefused:
    """Say that it is unknown whether the effect has happened.

    Args:
        entry: The entry of the effect.
        is_asked: Whether its tool will be asked again.
    """
    name, since = entry.claim.tool_name, entry.claim.created_at
    reason = (entry.reason or "It ended without a record.").rstrip(".")
    asked = "Retry later: the tool is asked about it. If it stays unknown, a person resolves it."
    human = "This requires human intervention."
    if entry.claim.owed_id:
        remedy = "Retry later: its undo is tried again." if is_asked else human
        return CallRefused(
            f"{name} was not run: the same call was made at {since:%Y-%m-%d %H:%M:%S} UTC, and its "
            f"effect is still to be undone ({reason}). It cannot be repeated before that. {remedy}",
            for_operator=f"toolstile ledger reconcile '{entry.claim.key}'; or, if its undo has "
            f"happened, toolstile ledger resolve '{entry.claim.key}' --done.",
        )
    remedy = asked if is_asked else human
    return CallRefused(
        f"{name} was not run: the same call was made at {since:%Y-%m-%d %H:%M:%S} UTC, and its "
        f"effect may have happened, but its outcome is unknown ({reason}). It cannot be repeated "
        f"until the outcome is known. {remedy}",
        for_operator=f"toolstile ledger resolve '{entry.claim.key}' --done [--value JSON], or "
        "--not-done.",
    )


def undone(entry: LedgerEntry) -> CallRefused:
    """Say that this very call was undone."""
    return CallRefused(
        f"{entry.claim.tool_name} was not run: this call was made before and was undone. Make a "
        "new call if it has to happen again."
    )


def undone_here(entry: LedgerEntry) -> CallRefused:
    """Say that the transaction of a call undoes the same earlier call."""
    return CallRefused(
        f"{entry.claim.tool_name} was not run: the same call was made before, and this transaction "
        "undoes it when the transaction is kept. Make the call again after that."
    )


def unreadable(name: str, error: LedgerError) -> CallRefused:
    """Say that an idempotent tool cannot be run without the ledger."""
    return CallRefused(
        f"{name} was not run: it must run at most once, and the ledger is unavailable. "
        f"{for_model(str(error))} This tool cannot be used until then.",
        for_operator=str(error),
    )


def unwritten(name: str, error: LedgerError) -> CallRefused:
    """Say that the effect has happened, but its record could not be written."""
    return CallRefused(
        f"{name} ran, and its effect outside may have happened, but that could not be recorded, so "
        f"nothing else of it was kept. {for_model(str(error))} Do not repeat the call. This "
        "requires human intervention.",
        for_operator=str(error),
    )


def lost(name: str) -> CallRefused:
    """Say that the claim was taken away while the handler ran."""
    return CallRefused(
        f"{name} ran, and its effect outside may have happened, but its claim was taken away "
        "meanwhile, so nothing else of it was kept. Do not repeat the call. This requires human "
        "intervention."
    )


def unfit(entry: LedgerEntry) -> CallRefused:
    """Say that the recorded value does not fit the tool any more."""
    name = entry.claim.tool_name
    return CallRefused(
        f"{name} has done this already and was not run again, but its recorded value does not fit "
        "the type that the tool returns today. This requires human intervention.",
        for_operator=f"toolstile ledger resolve '{entry.claim.key}' --done --value JSON, with the "
        f"plugin that offers {name}, loaded by --plugin FILE.py, say.",
    )
