"""The ledger: calls of tools that declare `idempotency` have their effect once.

Settings, `[plugins.ledger]`: see `LedgerSettings`. `toolstile ledger` lists and shows recorded
calls, and records whether unknown ones have happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import (
    Binding,
    Command,
    Decider,
    Diagnostic,
    HostHandle,
    Replay,
    Scope,
    StatusPart,
    Tool,
    ToolContext,
    applies_to,
    effect_free,
    hookimpl,
)
from toolstile_hookspecs.context import CallControl
from toolstile_hookspecs.services.dispatcher import Dispatcher
from toolstile_hookspecs.services.ledger import CallEffects, Claim, LedgerStore
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_plugins.ledger import cli
from toolstile_plugins.ledger.api import EffectLedger, HandlerEnd, HostLedger, ToolEffect
from toolstile_plugins.ledger.claim import claim_or_replay, is_recorded
from toolstile_plugins.ledger.lease import Lease
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.memory import MemoryStore
from toolstile_plugins.ledger.undoing import Refunds

__all__ = ["EffectLedger", "LedgerSettings", "MemoryStore", "ToolEffect", "effect_key"]

_leases: Final[dict[CallControl, Lease]] = {}
"""The claims of running calls of idempotent tools."""
_KEEPERS: Final = ("sessions", "database")
"""The plugins whose stored sessions are in a file that has the ledger, too."""


class _RunningEffects:
    def effect_id(self, context: ToolContext) -> str | None:
        """Return the id of a call's claim."""
        claim = _claim_of(context)
        return claim and claim.effect_id


def is_idempotent(tool: Tool[Any, Any]) -> bool:
    """Return whether the ledger records calls of a tool."""
    return tool.idempotency is not None and tool.idempotency.strategy != "none"


def effect_key(context: ToolContext) -> str | None:
    """Return the key of a running call's effect, by which a service can recognize a repeated call.

    The tool's `reconcile` or `undo` gets the same key. None if the ledger does not record the
    call, and in an isolated handler.
    """
    claim = _claim_of(context)
    # Because a call may be repeated after its undo, the service gets another key for it then.
    return claim and (claim.owed_id or claim.key)


def _claim_of(context: ToolContext) -> Claim | None:
    lease = None if context.control is None else _leases.get(context.control)
    return None if lease is None else lease.claim


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return LedgerSettings


@hookimpl
def toolstile_diagnose(
    host: HostHandle, settings: LedgerSettings, bound: Mapping[type[Any], str]
) -> Iterable[Diagnostic]:
    """Find out whether the store can be used."""
    from toolstile_plugins.ledger.doctor import diagnosed  # only `toolstile doctor` asks

    file = settings.path
    if "path" not in settings.model_fields_set and bound.get(SessionStore) in _KEEPERS:
        file = host.settings(bound[SessionStore]).path or file
    return diagnosed(settings, file, offering=bound.get(LedgerStore))


@hookimpl
def toolstile_status(host: HostHandle) -> Iterable[StatusPart]:
    """Report the effects that are to be undone."""
    if any(tool.undo for tool in host.catalog):
        # Late, because few hosts have such tools.
        from toolstile_plugins.ledger.entries import owed_in

        yield owed_in(host)


@hookimpl
def toolstile_resources(settings: LedgerSettings) -> list[Binding[Any]]:
    """Offer the ledger; a binding of the application replaces it."""
    return [
        # An open host gives the state in its place.
        Binding(HostLedger, lambda _: HostLedger(settings)),
        Binding(EffectLedger, lambda resources: resources.get(HostLedger).ledger(resources)),
        Binding(HandlerEnd, lambda _: HandlerEnd(), Scope.TOOL_CALL),
        Binding(Refunds, lambda its: Refunds(its.get(EffectLedger), its.get(HostLedger).refund)),
        Binding[Decider](
            Decider,  # type: ignore[type-abstract]
            lambda resources: resources.get(EffectLedger),
        ),
        Binding[CallEffects](
            CallEffects,  # type: ignore[type-abstract]
            lambda resources: _RunningEffects(),  # noqa: ARG005 - it needs none
        ),
    ]


@hookimpl
@effect_free
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: LedgerSettings) -> Generator[HostLedger]:
    """Check unknown effects while the host is open; close the ledger with the host."""
    with closing(HostLedger(settings, host)) as ledger:
        if host.purpose == "look" or not any(_asks(tool, settings) for tool in host.catalog):
            yield ledger
            return
        # Late, because it imports asyncio.
        from toolstile_plugins.ledger.reconcile import reconciling, undo_owed

        ledger.undo = lambda key: undo_owed(host, settings, key)
        with reconciling(host, settings):
            yield ledger


def _asks(tool: Tool[Any, Any], settings: LedgerSettings) -> bool:
    """Return whether a tool is asked if its calls have happened."""
    config = tool.idempotency
    is_asked = tool.name in settings.reconcile or (config is not None and config.reconcile)
    return bool(is_asked or tool.undo) and is_idempotent(tool)


@hookimpl
@applies_to(is_idempotent)
def toolstile_snapshot(
    context: ToolContext, tool: Tool[Any, Any], settings: LedgerSettings
) -> Awaitable[Lease] | Lease | None:
    """Take part in calls of idempotent tools."""
    control = context.control
    if control is None:
        return None
    lease = _leases.get(control)
    if lease is not None:
        lease.enter(context)
        return lease
    if is_on_loop():
        if EffectLedger not in context.resources:
            return None
        return _take_part(context, tool, settings)
    ledger = context.resources.get(EffectLedger, None)
    return None if ledger is None else _held(ledger, context, tool, settings)


async def _take_part(context: ToolContext, tool: Tool[Any, Any], settings: LedgerSettings) -> Lease:
    # The first call opens the ledger.
    ledger = await context.resources.aget(EffectLedger)
    return _held(ledger, context, tool, settings)


def _held(
    ledger: EffectLedger, context: ToolContext, tool: Tool[Any, Any], settings: LedgerSettings
) -> Lease:
    resources = context.resources
    dispatcher = resources.get(Dispatcher) if Dispatcher in resources else None  # type: ignore[type-abstract]
    reconciler = None
    if dispatcher is not None or _asks(tool, settings):
        from toolstile_plugins.ledger.reconcile import reconciler_of  # late: it imports asyncio

        reconciler = reconciler_of(tool, ledger, settings, dispatcher)
    lease = Lease(ledger, tool, context, _leases, reconciler)
    return _leases.setdefault(lease.control, lease)


@hookimpl(tryfirst=True)
@applies_to(is_idempotent, recalls=is_recorded)
def toolstile_execute(
    params: Any, context: ToolContext
) -> Awaitable[Replay | None] | Replay | None:
    """Claim the call's key, or answer with the recorded result."""
    control = context.control
    lease = None if control is None else _leases.get(control)
    return None if lease is None else claim_or_replay(lease, params)


@hookimpl
def toolstile_rollback(tool: Tool[Any, Any], context: ToolContext, reason: str) -> None:
    """Release the key of a failed call, or mark its effect as unknown."""
    if tool.idempotency is not None and context.control is not None:
        lease = _leases.get(context.control)
        if lease is not None:
            lease.settle(reason)


@hookimpl
def toolstile_commands() -> list[Command]:
    return cli.commands(Command)
