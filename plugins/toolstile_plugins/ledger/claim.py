"""The claim of a key before the handler runs: a hit, a miss, taken, or unknown."""

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
from toolstile_plugins.ledger import messages as wording
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.ledger.entries import is_unsettled
from toolstile_plugins.ledger.keys import (
    encoder,
    keys_of,
    printable,
    printable_session,
    recorded_hash,
)
from toolstile_plugins.ledger.lease import Holding, as_seen_by

SHORTEST: Final = 0.001
LONGEST: Final = 0.05
"""Seconds between two looks at a claim that is waited for."""


def claim_or_replay(holding: Holding, params: Any) -> Awaitable[Replay | None] | Replay | None:
    """Claim the key of a call.

    Returns:
        None when the call holds the key and is to run, or the recorded result. An awaitable where
        the ledger or another call has to be waited for.

    Raises:
        CallRefused: The call must not run.
    """
    tool, context = holding.tool, holding.context
    effect_id = new_id()
    call = context.tool_call
    call_id = "" if call is None else printable(call.id)
    key, params_hash = keys_of(tool, params, context, effect_id if call is None else call_id)
    claim = Claim(
        key,
        tool.name,
        params_hash,
        effect_id,
        printable_session(context.session.id),
        call_id,
        context.clock.now(),
        _kept(holding, params),
    )
    holding.control.set_attribute("ledger.key", key)
    if holding.ledger.store.waits and is_on_loop():
        return _wait_and_claim(holding, claim, params)
    standing = _attempt(holding, claim, params)
    if standing is None:
        return None
    if standing.state is EffectState.DONE:
        return _replay(holding, claim, params, standing)
    _check_params(holding, claim, params, standing)
    if holding.context.parent is not None and standing.state is EffectState.CLAIMED:
        holding.control.set_attribute("ledger.state", "in_progress")
        raise wording.under_way(standing)
    return _wait_and_claim(holding, claim, params)


def is_recorded(tool: Tool[Any, Any], params: Any, context: ToolContext) -> Awaitable[bool] | bool:
    """Tell whether a recorded result stands in a call's way, so that its handler will not run."""
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
        if entry is None or entry.yields_to(ledger.now(context.clock), None):
            return False
        return as_seen_by(context, entry).state is EffectState.DONE

    if ledger.store.waits and is_on_loop():
        return off_loop(look)
    return look()


def _kept(holding: Holding, params: Any) -> bytes | None:
    """Return the params to keep, for what asks about the effect; secrets are kept nowhere."""
    tool = holding.tool
    asks_tool = holding.reconciler is not None and holding.reconciler.asks_tool
    if not asks_tool or tool.params_codec.secret_schema():
        return None
    return encoder(tool)(params)


def _attempt(holding: Holding, claim: Claim, params: Any) -> LedgerEntry | None:
    """Try once; returns an entry that stands in the way, None when the call holds the key.

    An unknown one is returned where its tool says what became of it.

    Raises:
        CallRefused: The effect is unknown, or the ledger cannot be read.
    """
    # First, because an interruption may come after each step: the keeper releases the claim then.
    holding.begin(claim)
    store, leases = holding.ledger.store, holding.ledger.leases
    try:
        standing = _claim(holding, claim, params)
        if standing is None:
            if not holding.take():
                # The call was given up meanwhile.
                leases.settle(partial(store.release, claim.key, claim.effect_id))
            return None
    except CallRefused:
        holding.forget_claim()
        raise
    except BaseException as error:
        # The claim may have been made although its answer was lost.
        leases.settle_later(partial(store.release, claim.key, claim.effect_id))
        if not isinstance(error, Exception):
            raise
        holding.forget_claim()
        holding.control.set_attribute("ledger.state", "unavailable")
        raise wording.unreadable(holding.tool.name, wording.failure(store, error)) from error
    holding.forget_claim()
    return as_seen_by(holding.context, standing)


def _claim(holding: Holding, claim: Claim, params: Any) -> LedgerEntry | None:
    store = holding.ledger.store
    now = holding.ledger.now(holding.context.clock)
    standing = store.claim(claim, now=now)
    if standing is None or standing.state is not EffectState.UNKNOWN:
        return standing
    _check_params(holding, claim, params, standing)
    if holding.tool.category != "read" and holding.config.on_unknown != "retry":
        if holding.reconciler is not None:
            return standing
        holding.control.set_attribute("ledger.state", "unknown")
        raise wording.unknown(standing)
    return store.claim(claim, now=now, over=standing.claim.effect_id)


async def _wait_and_claim(holding: Holding, claim: Claim, params: Any) -> Replay | None:
    """Try until the call holds the key or gets the result; another call may take its time."""
    import asyncio  # late: commands that make no calls need not wait for it

    loop = asyncio.get_running_loop()
    until = loop.time() + holding.ledger.wait
    pause = SHORTEST
    while True:
        standing = await off_loop(partial(_attempt, holding, claim, params))
        if standing is None:
            return None
        if standing.state is EffectState.DONE:
            return _replay(holding, claim, params, standing)
        if standing.state is EffectState.UNKNOWN:
            standing = await _find_out(holding, standing)
        if standing is not None and standing.state is EffectState.CLAIMED:
            _check_params(holding, claim, params, standing)
            # Now, for its deadline may end the wait.
            holding.control.set_attribute("ledger.state", "in_progress")
            if holding.context.parent is not None or loop.time() >= until:
                raise wording.under_way(standing)
            # Not in step with the others that wait.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause = min(pause * 2, LONGEST)


async def _find_out(holding: Holding, standing: LedgerEntry) -> LedgerEntry | None:
    """Ask what became of an unknown effect; returns None where it is known by now.

    Where another one asks, the entry counts as under way.

    Raises:
        CallRefused: It is still unknown, or the ledger cannot be used.
    """
    reconciler, claim = holding.reconciler, standing.claim
    assert reconciler is not None  # noqa: S101 - others are told at once
    try:
        await reconciler.find_out(standing, holding.context)
        now = await off_loop(partial(holding.ledger.store.get, claim.key))
    except Exception as error:
        holding.control.set_attribute("ledger.state", "unavailable")
        failed = wording.failure(holding.ledger.store, error)
        raise wording.unreadable(holding.tool.name, failed) from error
    if now is None or now.claim.effect_id != claim.effect_id or not is_unsettled(now):
        return None
    if now.owner:
        return now._replace(state=EffectState.CLAIMED)
    holding.control.set_attribute("ledger.state", "unknown")
    raise wording.unknown(standing, is_asked=True)


def _replay(holding: Holding, claim: Claim, params: Any, entry: LedgerEntry) -> Replay:
    _check_params(holding, claim, params, entry)
    recorded = entry.result
    assert recorded is not None  # noqa: S101 - it is done
    try:
        value = None if recorded.value is None else holding.tool.result_codec.decode(recorded.value)
    except ToolValidationError as error:
        raise wording.unfit(entry) from error
    with suppress(ResourceError, OSError):
        # After a crash it is opening the workspace that brings the files there.
        _ = holding.context.filesystem
    holding.control.set_attribute("ledger.state", "hit")
    result = ToolResult(recorded.message, value, exclude_value_from_context=recorded.excluded)
    return Replay(result, entry.claim.effect_id, recorded.changes, recorded.unportable)


def _check_params(holding: Holding, claim: Claim, params: Any, entry: LedgerEntry) -> None:
    if holding.config.strategy != "auto" and not holding.config.same_params:
        return
    hashed = entry.claim.params_hash
    # A program that recorded the effect need not know how the tool orders its params.
    if hashed != claim.params_hash and hashed != recorded_hash(holding.tool, params):
        holding.control.set_attribute("ledger.state", "mismatch")
        raise wording.other_params(entry)
