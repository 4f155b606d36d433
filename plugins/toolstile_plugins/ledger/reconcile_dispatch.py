"""The dispatcher as the first to say what became of an unknown effect: its call may have ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from toolstile_hookspecs import Reconciled, Tool, ToolContext, ToolResult
from toolstile_hookspecs.services.dispatcher import Dispatcher, DispatchOutcome, DispatchState
from toolstile_hookspecs.services.ledger import LedgerEntry
from toolstile_plugins.ledger.handler_end import gives_key_back

Ask = Callable[[LedgerEntry, ToolContext], Awaitable[Reconciled]]


async def ask_dispatcher(
    tool: Tool[Any, Any],
    dispatcher: Dispatcher,
    own: Ask | None,
    entry: LedgerEntry,
    context: ToolContext,
) -> Reconciled:
    """Ask the dispatcher what became of a call, and then what the tool has for that.

    Args:
        tool: The tool.
        dispatcher: The dispatcher; not every effect was submitted to it.
        own: Asks the tool; only once the call cannot begin any more, so that its finding holds.
        entry: The effect.
        context: The context of the one who asks.
    """
    import asyncio  # late: commands that make no calls need not wait for it

    effect_id = entry.claim.effect_id
    outcome = await asyncio.to_thread(dispatcher.find, effect_id)
    if outcome is None and own is not None:
        outcome = await asyncio.to_thread(dispatcher.withdraw, effect_id)
    if outcome is None:
        return Reconciled.cannot_tell("It runs on a worker, or it is not known whether it did.")
    return _finding(tool, outcome, only_here=own is None) or (
        Reconciled.cannot_tell(outcome.text) if own is None else await own(entry, context)
    )


def _finding(
    tool: Tool[Any, Any], outcome: DispatchOutcome, *, only_here: bool
) -> Reconciled | None:
    """Return what an outcome says by itself, None where that is not certain."""
    if outcome.state is DispatchState.RESULT:
        value = None if outcome.value is None else tool.result_codec.decode(outcome.value)
        return Reconciled.happened(
            ToolResult(outcome.text, value, exclude_value_from_context=outcome.excluded)
        )
    if outcome.state is DispatchState.FAILURE:
        is_over = gives_key_back(tool, outcome.handler_state, asks_tool=not only_here)
        return Reconciled.did_not() if is_over else None
    # Also a call that ran elsewhere, of which the dispatcher does not know, may be withdrawn.
    is_certain = outcome.state is DispatchState.NOT_RUN and only_here
    return Reconciled.did_not() if is_certain else None
