"""The claim of a key before the handler runs: a hit, a miss, in progress, or unknown."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from toolstile_hookspecs import (
    CallRefused,
    Replay,
    ResourceError,
    Tool,
    ToolContext,
    ToolResult,
    ToolValidationError,
)
from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry
from toolstile_hookspecs.support.event_loop import is_on_loop, off_loop
from toolstile_hookspecs.support.process import new_id
from toolstile_plugins.leases import now_of
from toolstile_plugins.ledger import messages as wording
from toolstile_plugins.ledger.api import EffectLedger, is_unsettled
from toolstile_plugins.ledger.keys import (
    encoder,
    keys_of,
    printable,
    printable_session,
    recorded_hash,
)
from toolstile_plugins.ledger.lease import Lease, as_seen_by, waits_in_vain
from toolstile_plugins.ledger.undoing import UNDONE, Refunds

SHORTEST: Final = 0.001
LONGEST: Final = 0.05
"""Seconds between two checks of a claim of another call."""


def claim_or_replay(lease: Lease, params: Any) -> Awaitable[Replay | None] | Replay | None:
    """Claim the key of a call.

    Returns:
        None if the call has the key and runs, or the recorded result. An awaitable if the call
        must wait for the ledger or for another call.

    Raises:
        CallRefused: The call must not run.
    """
    tool, context = lease.tool, lease.context
    effect_id = new_id()
    call = context.tool_call
    call_id = "" if call is None else printable(call.id)
    key, params_hash = keys_of(tool, params, context, effect_id if call is None else call_id)
    # Params with secrets are not kept for `reconcile`.
    asks_tool = lease.reconciler is not None and lease.reconciler.asks_tool
    is_kept = asks_tool and not tool.params_codec.secret_schema()
    claim = Claim(
        key,
        tool.name,
        params_hash,
        effect_id,
        printable_session(context.session.id),
        call_id,
        context.clock.now(),
        encoder(tool)(params) if is_kept else None,
    )
    if asks_tool and tool.undo is not None:
        # The claim owes an undo from now on.
        claim = claim._replace(params=b'["%s",%s,null]' % (effect_id.encode(), claim.params))
    lease.control.set_attribute("ledger.key", key)
    if lease.ledger.store.waits and is_on_loop():
        return _wait_and_claim(lease, claim, params)
    standing = _attempt(lease, claim, params)
    if standing is None:
        return None
    if standing.state is EffectState.DONE:
        return _replay(lease, claim, params, standing)
    _check_params(lease, claim, params, standing)
    if standing.state is EffectState.CLAIMED and waits_in_vain(lease.context, standing):
        lease.control.set_attribute("ledger.state", "in_progress")
        raise wording.under_way(standing)
    return _wait_and_claim(lease, claim, params)


def is_recorded(tool: Tool[Any, Any], params: Any, context: ToolContext) -> Awaitable[bool] | bool:
    """Return whether a recorded result answers a call, so that its handler does not run."""
    ledger = context.resources.get(EffectLedger, None)
    if ledger is None or tool.idempotency is None:
        return False
    call = context.tool_call
    call_id = new_id() if call is None else printable(call.id)
    key, _ = keys_of(tool, params, context, call_id)

    def look() -> bool:
        try:
            entry = ledger.store.get(key)
        except Exception as error:  # noqa: BLE001 - the store may be anybody's, and is asked again
            wording.failure(ledger.store, error)
            return False
        if entry is None or entry.yields_to(now_of(ledger.store, context.clock), None):
            return False
        return as_seen_by(context, entry).state is EffectState.DONE

    if ledger.store.waits and is_on_loop():
        return off_loop(look)
    return look()


def _attempt(lease: Lease, claim: Claim, params: Any) -> LedgerEntry | None:
    """Try once; return the entry that prevents the claim, or None if the call has the key.

    An unknown effect is returned if its tool has a `reconcile`.

    Raises:
        CallRefused: The effect is unknown, or the ledger cannot be read.
    """
    # First, because an interruption may come after any step; the keeper releases the claim then.
    lease.begin(claim)
    store, keeper = lease.ledger.store, lease.ledger.keeper
    try:
        standing = _claim(lease, claim, params)
        if standing is None:
            if not lease.take():
                # The call has been cancelled meanwhile.
                keeper.settle(partial(store.release, claim.key, claim.effect_id))
            return None
    except CallRefused:
        lease.forget_claim()
        raise
    except BaseException as error:
        # The claim may have been made although its answer was lost.
        keeper.settle_later(partial(store.release, claim.key, claim.effect_id))
        if not isinstance(error, Exception):
            raise
        lease.forget_claim()
        lease.control.set_attribute("ledger.state", "unavailable")
        raise wording.unreadable(lease.tool.name, wording.failure(store, error)) from error
    lease.forget_claim()
    return as_seen_by(lease.context, standing)


def _claim(lease: Lease, claim: Claim, params: Any) -> LedgerEntry | None:
    store = lease.ledger.store
    now = now_of(store, lease.context.clock)
    if hasattr(store, "ahead_of"):
        # By the clock of the store, as the ends of leases and results.
        claim = claim._replace(created_at=now)
    if lease.config.scope == "call" and lease.is_put_back:
        earlier = store.get(claim.key)
        if earlier is not None and earlier.reason == UNDONE:
            raise wording.undone(earlier)
    standing = store.claim(claim, now=now)
    if standing is None or standing.state is not EffectState.UNKNOWN:
        return standing
    _check_params(lease, claim, params, standing)
    may_repeat = lease.tool.category == "read" or lease.config.on_unknown == "retry"
    if not may_repeat and standing.reason != UNDONE:
        if lease.reconciler is not None:
            return standing
        lease.control.set_attribute("ledger.state", "unknown")
        raise wording.unknown(standing)
    return store.claim(claim, now=now, over=standing.claim.effect_id)


async def _wait_and_claim(lease: Lease, claim: Claim, params: Any) -> Replay | None:
    """Try until the call has the key or the result of another call."""
    import asyncio  # late: commands that make no calls need not wait for it

    loop = asyncio.get_running_loop()
    until = loop.time() + lease.ledger.wait
    pause = SHORTEST
    while True:
        standing = await off_loop(partial(_attempt, lease, claim, params))
        if standing is None:
            return None
        if standing.state is EffectState.DONE:
            return _replay(lease, claim, params, standing)
        if standing.state is EffectState.UNKNOWN:
            standing = await _find_out(lease, standing)
        if standing is not None and standing.state is EffectState.CLAIMED:
            _check_params(lease, claim, params, standing)
            # Set now, because the deadline may end the wait.
            lease.control.set_attribute("ledger.state", "in_progress")
            if waits_in_vain(lease.context, standing) or loop.time() >= until:
                raise wording.under_way(standing)
            # Random, so that waiting calls do not try at the same moments.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause = min(pause * 2, LONGEST)


async def _find_out(lease: Lease, standing: LedgerEntry) -> LedgerEntry | None:
    """Ask whether an unknown effect has happened; return None if that is known now.

    If another process asks, the entry counts as claimed.

    Raises:
        CallRefused: It is still unknown, or the ledger cannot be used.
    """
    reconciler, claim = lease.reconciler, standing.claim
    assert reconciler is not None  # noqa: S101 - `_claim` refuses the others
    try:
        await reconciler.find_out(standing, lease.context)
        now = await off_loop(partial(lease.ledger.store.get, claim.key))
    except Exception as error:
        lease.control.set_attribute("ledger.state", "unavailable")
        failed = wording.failure(lease.ledger.store, error)
        raise wording.unreadable(lease.tool.name, failed) from error
    if now is None or not is_unsettled(now):
        return None
    if now.claim.effect_id != claim.effect_id and not now.claim.owed_id:
        return None
    if now.owner:
        return now._replace(state=EffectState.CLAIMED)
    lease.control.set_attribute("ledger.state", "owed" if now.claim.owed_id else "unknown")
    raise wording.unknown(now, is_asked=True)


def _replay(lease: Lease, claim: Claim, params: Any, entry: LedgerEntry) -> Replay:
    _check_params(lease, claim, params, entry)
    if lease.is_put_back and lease.context.resources.get(Refunds).undoes(entry.claim.key):
        lease.control.set_attribute("ledger.state", "owed")
        raise wording.undone_here(entry)
    recorded = entry.result
    assert recorded is not None  # noqa: S101 - it is done
    try:
        value = None if recorded.value is None else lease.tool.result_codec.decode(recorded.value)
    except ToolValidationError as error:
        raise wording.unfit(entry) from error
    with suppress(ResourceError, OSError):
        # Because opening the workspace recovers the files of the call after a crash.
        _ = lease.context.filesystem
    lease.control.set_attribute("ledger.state", "hit")
    result = ToolResult(recorded.message, value, exclude_value_from_context=recorded.excluded)
    return Replay(result, entry.claim.effect_id, recorded.changes, recorded.unportable)


def _check_params(lease: Lease, claim: Claim, params: Any, entry: LedgerEntry) -> None:
    if lease.config.strategy != "auto" and not lease.config.same_params:
        return
    hashed = entry.claim.params_hash
    # Because a program that records an effect may order the params differently.
    if hashed != claim.params_hash and hashed != recorded_hash(lease.tool, params):
        lease.control.set_attribute("ledger.state", "mismatch")
        raise wording.other_params(entry)
