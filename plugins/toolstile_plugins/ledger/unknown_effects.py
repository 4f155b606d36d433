"""All unknown effects of a host's ledger, asked about by calls that its records show."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import (
    NOTICE,
    ExecutorHandle,
    HostHandle,
    LedgerError,
    StateError,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_hookspecs.services.dispatcher import Dispatcher
from toolstile_hookspecs.services.ledger import LedgerEntry, SettlesUnknown
from toolstile_hookspecs.support.process import new_id
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.ledger.entries import Due, due_of, store_of
from toolstile_plugins.ledger.reconcile import Reconciler, name_of, reconciler_of
from toolstile_plugins.ledger.settings import LedgerSettings

log = logging.getLogger("toolstile.ledger")

NAME: Final = "ledger_reconcile"
"""The tool whose calls ask about unknown effects; models are not offered it."""


class Inquiry(NamedTuple):
    """One unknown effect that is looked at.

    Args:
        entry: Its entry.
        due: Its deadline.
        reconciler: Finds out about it; None where nothing can.
        token: The hold on it; None where it is not asked about now.
    """

    entry: LedgerEntry
    due: Due
    reconciler: Reconciler | None
    token: str | None


class Look(NamedTuple):
    """The end of a look at an unknown effect.

    Args:
        entry: Its entry, as it was.
        found: The finding, as events tell it; None where it was not asked about.
        due: Its deadline.
    """

    entry: LedgerEntry
    found: str | None
    due: Due


@contextmanager
def asked_about(host: HostHandle, settings: LedgerSettings) -> Generator[None]:
    """Ask about unknown effects at intervals within the block."""
    if not settings.reconcile_every:
        yield
        return
    closing = threading.Event()
    thread = threading.Thread(
        target=_ask_until, args=(closing, host, settings), name="toolstile-reconcile", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join(timeout=5)


def _ask_until(closing: threading.Event, host: HostHandle, settings: LedgerSettings) -> None:
    alarms: set[str] = set()
    # Not at once: a command that only looks asks nobody.
    while not closing.wait(settings.reconcile_every):
        try:
            for _ in looks(host, settings, alarms=alarms):
                if closing.is_set():
                    return
        except (LedgerError, StateError) as error:
            log.debug("Unknown effects are asked about later: %s", error)
        except Exception:
            log.exception("Unknown effects could not be asked about. It is tried again.")


def looks(
    host: HostHandle,
    settings: LedgerSettings,
    *,
    key: str | None = None,
    at_once: bool = False,
    alarms: set[str] | None = None,
) -> Iterator[Look]:
    """Look at all unknown effects, and ask about those of which a tool can tell.

    Args:
        host: The host.
        settings: The settings of the ledger.
        key: The key of the only one to look at.
        at_once: Ask also where the time for that has not come.
        alarms: The effects past their deadline that were looked at; None looks at all.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    current: list[Inquiry] = []

    @tool(name=NAME, category="read", timeout=None)
    async def ledger_reconcile(key: str, *, context: ToolContext) -> ToolResult[Any]:
        """Find out what became of an effect of which nobody knows."""
        context.set_attribute("ledger.key", key)
        return await _ask(current[0], context)

    with host.executor(tools=[ledger_reconcile]) as tools:
        ledger = tools.resources.get(EffectLedger)
        dispatcher = tools.resources.get(Dispatcher, None)  # type: ignore[type-abstract]
        store = store_of(settings, ledger)
        for entry in store.unsettled() if isinstance(store, SettlesUnknown) else ():
            if key not in (None, entry.claim.key):
                continue
            due = due_of(entry, settings, host.clock.now())
            assert due is not None  # noqa: S101 - it is unsettled
            called = host.catalog.get(entry.claim.tool_name)
            reconciler = reconciler_of(called, ledger, settings, dispatcher)
            new = new_id()
            is_held = reconciler is not None and reconciler.hold(entry, new, at_once=at_once)
            token = new if is_held else None
            is_seen = alarms is not None and entry.claim.effect_id in alarms
            if token is None and (alarms is None or is_seen or not due.is_over):
                if alarms is None:
                    yield Look(entry, None, due)
                continue
            if due.is_over and alarms is not None and not is_seen:
                alarms.add(entry.claim.effect_id)
                _alarm(entry, due)
            current[:] = [Inquiry(entry, due, reconciler, token)]
            yield Look(entry, _dispatch(tools, current[0], settings.backoff), due)


def _dispatch(tools: ExecutorHandle, inquiry: Inquiry, pause: float) -> str | None:
    entry, _, reconciler, token = inquiry
    try:
        outcome = tools.dispatch(ToolCall(NAME, {"key": entry.claim.key}))
        found = outcome.event.attributes.get("ledger.reconciled")
        return None if found is None else str(found)
    finally:
        if reconciler is not None and token is not None:
            # A policy may have denied it; else this changes nothing.
            reconciler.put_off(entry, token, pause)


async def _ask(inquiry: Inquiry, context: ToolContext) -> ToolResult[Any]:
    entry, due, reconciler, token = inquiry
    name = entry.claim.tool_name
    if reconciler is not None and token is not None:
        found = await reconciler.inquire(entry, token, context)
        if found.has_happened is not None:
            return ToolResult.ok(message=f"{name}: {name_of(found)}.")
    context.set_attribute("ledger.due", str(due))
    told = f"It is not known what became of {entry.claim.key}: {due}."
    return ToolResult.error(told) if due.is_over else ToolResult.ok(message=told)


def _alarm(entry: LedgerEntry, due: Due) -> None:
    log.warning(
        "It is not known what became of a call of %s: %s. Find out, then settle it: toolstile "
        "ledger resolve '%s'.",
        entry.claim.tool_name,
        due,
        entry.claim.key,
        extra=NOTICE,
    )
