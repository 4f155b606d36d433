"""Reconciliation: a tool finds out whether a call without a record has happened.

A call of the same key asks about its own effect. `reconcile_pass` asks about all unknown effects,
by calls of a tool that models are not offered, so that the host records the questions.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from toolstile_hookspecs import (
    NOTICE,
    ExecutorHandle,
    HostHandle,
    LedgerError,
    Reconciled,
    StateError,
    Tool,
    ToolContext,
    ToolResult,
    ToolValidationError,
    secrets_in,
    secrets_of,
    tool,
)
from toolstile_hookspecs.calls import RECONCILE_TOOL, SettlingCall
from toolstile_hookspecs.codecs import in_one_line, why_unwritable
from toolstile_hookspecs.services.dispatcher import Dispatcher, DispatchOutcome, DispatchState
from toolstile_hookspecs.services.ledger import (
    EffectState,
    LedgerEntry,
    RecordedResult,
    SettlesUnknown,
    StoresOwed,
)
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import new_id
from toolstile_hookspecs.support.text import noted_for_operator
from toolstile_plugins.leases import now_of
from toolstile_plugins.ledger import messages
from toolstile_plugins.ledger.api import EffectLedger, end_of, gives_key_back, with_masks
from toolstile_plugins.ledger.entries import Due, due_of, state_of, store_of
from toolstile_plugins.ledger.settings import LedgerSettings, OtherTool
from toolstile_plugins.ledger.stores.memory import PAST
from toolstile_plugins.ledger.undoing import UNDONE

log = logging.getLogger("toolstile.ledger")
T = TypeVar("T")

_ON_WORKER: Final = "It runs on a worker, or has run there without a known outcome."
Ask = Callable[[LedgerEntry, ToolContext], Awaitable[Reconciled]]


async def ask_dispatcher(
    tool: Tool[Any, Any],
    dispatcher: Dispatcher,
    own: Ask | None,
    entry: LedgerEntry,
    context: ToolContext,
) -> Reconciled:
    """Ask the dispatcher about a call, then the tool by `own`.

    The tool is asked once the call cannot begin any more, so that its finding stays true. The
    dispatcher need not know the effect.
    """
    effect_id = entry.claim.effect_id
    outcome = await asyncio.to_thread(dispatcher.find, effect_id)
    if outcome is None and own is not None:
        outcome = await asyncio.to_thread(dispatcher.withdraw, effect_id)
    if outcome is None:
        return Reconciled.cannot_tell(_ON_WORKER)
    return _finding(tool, outcome, only_here=own is None) or (
        Reconciled.cannot_tell(outcome.text) if own is None else await own(entry, context)
    )


def _finding(
    tool: Tool[Any, Any], outcome: DispatchOutcome, *, only_here: bool
) -> Reconciled | None:
    """Return the finding of an outcome, or None if the outcome alone is not certain."""
    if outcome.state is DispatchState.RESULT:
        value = None if outcome.value is None else tool.result_codec.decode(outcome.value)
        return Reconciled.happened(
            ToolResult(outcome.text, value, exclude_value_from_context=outcome.excluded)
        )
    if outcome.state is DispatchState.FAILURE:
        is_over = gives_key_back(tool, outcome.handler_state, asks_tool=not only_here)
        return Reconciled.did_not() if is_over else None
    # Because a call that ran elsewhere is unknown to the dispatcher, it may be withdrawn, too.
    is_certain = outcome.state is DispatchState.NOT_RUN and only_here
    return Reconciled.did_not() if is_certain else None


NOT_HAPPENED: Final = "Its tool found that it has not happened."
ELSEWHERE: Final = "asked elsewhere"
"""The finding for an effect that another pass asks about at the moment."""
_SOON: Final = 0.05
"""Seconds until a host is open, whose thread has begun to wait for that."""
_AGAIN: Final = 0.02
"""Seconds until the next look at an undo that another pass runs."""
LONGEST: Final = 3600.0
"""The most seconds between two questions about one effect."""


def reconciler_of(
    tool: Tool[Any, Any] | None,
    ledger: EffectLedger,
    settings: LedgerSettings,
    dispatcher: Dispatcher | None = None,
) -> Reconciler | None:
    """Return the reconciler of a tool, or None if its unknown effects need a person."""
    if tool is None or (config := tool.idempotency) is None or config.strategy == "none":
        return None
    if tool.undo is not None:
        if not isinstance(ledger.store, StoresOwed):
            raise LedgerError(f"{tool.name} has undo=. Use a store of the ledger that has `owe`.")
        undo = partial(_undo_effect, tool, dispatcher)
        return _Undoer(tool, ledger, ledger.store, undo, settings.backoff)
    own: Ask | None = None
    if tool.name in settings.reconcile:
        own = partial(ask_other, tool, settings.reconcile[tool.name])
    elif config.reconcile is not None:
        own = partial(_ask_function, tool, config.reconcile)
    ask = own if dispatcher is None else partial(ask_dispatcher, tool, dispatcher, own)
    if ask is None or not isinstance(ledger.store, SettlesUnknown):
        return None
    return Reconciler(tool, ledger, ledger.store, ask, settings.backoff, asks_tool=own is not None)


class Reconciler:
    """Asks whether unknown effects of a tool have happened, in one process at a time each.

    `backoff` is the least seconds until the next question; `asks_tool` tells whether the tool is
    asked, with the params of the call.
    """

    doing = "Asking"

    def __init__(  # noqa: PLR0913 - the tool, its question, and the store of the answer
        self,
        tool: Tool[Any, Any],
        ledger: EffectLedger,
        store: Any,
        ask: Ask,
        backoff: float,
        *,
        asks_tool: bool = True,
    ) -> None:
        self.tool = tool
        self.asks_tool = asks_tool
        self._ledger = ledger
        self._store = store
        self._ask = ask
        self._backoff = backoff

    async def find_out(self, entry: LedgerEntry, context: ToolContext) -> None:
        """Hold an effect, ask about it and record the finding, unless another process does.

        A call that is cancelled meanwhile releases the hold.
        """
        token, given_up = new_id(), threading.Event()
        try:
            if await self._off_loop(partial(self._hold_unless, entry, token, given_up)):
                await self.inquire(entry, token, context)
        except BaseException:
            # A thread that takes the hold after this sees the event; an earlier hold is deferred.
            given_up.set()
            self._ledger.keeper.settle_later(partial(self.defer, entry, token, 0.0))
            raise

    def _hold_unless(self, entry: LedgerEntry, token: str, given_up: threading.Event) -> bool:
        is_held = self.hold(entry, token)
        if is_held and given_up.is_set():
            self.defer(entry, token, 0.0)
        return is_held

    def hold(self, entry: LedgerEntry, token: str, *, at_once: bool = False) -> bool:
        """Hold an effect under a new token; return False if it cannot be held now."""
        key, effect_id = entry.claim.key, entry.claim.effect_id
        is_held: bool = self._store.hold(key, effect_id, token, at_once=at_once)
        if is_held:
            self._ledger.keeper.hold(effect_id, key)
        return is_held

    async def inquire(self, entry: LedgerEntry, token: str, context: ToolContext) -> Reconciled:
        """Ask about an effect that is held, and record the finding.

        Returns:
            The finding; `cannot_tell` also if the finding cannot be recorded.
        """
        found = await self._asked(entry, context)
        found = await self._off_loop(partial(self._record, entry, token, found, context))
        context.set_attribute("ledger.reconciled", name_of(found))
        return found

    def defer(self, entry: LedgerEntry, token: str, seconds: float) -> None:
        """Release a hold; the next question comes after some seconds at the earliest."""
        claim = entry.claim
        self._ledger.keeper.drop(claim.effect_id)
        self._store.defer(claim.key, claim.effect_id, token, seconds)

    def pause_after(self, entry: LedgerEntry, now: datetime) -> float:
        """Return the seconds until the next question, which grow with the age of the effect."""
        age = (now - entry.claim.created_at).total_seconds()
        return min(max(age, self._backoff), LONGEST)

    async def _off_loop(self, function: Callable[[], T]) -> T:
        if not (self._ledger.store.waits and is_on_loop()):
            return function()
        return await asyncio.to_thread(function)

    async def _asked(self, entry: LedgerEntry, context: ToolContext) -> Reconciled:
        name = entry.claim.tool_name
        try:
            async with asyncio.timeout(self._ledger.wait):
                found = cast("object", await self._ask(entry, context))
        except TimeoutError:
            return Reconciled.cannot_tell(f"No answer came within {self._ledger.wait:g} s.")
        except Exception as error:
            # Its text may hold secrets.
            log.debug("The reconcile of %s has failed.", name, exc_info=True)
            return Reconciled.cannot_tell(f"{self.doing} failed ({type(error).__name__}).")
        if not isinstance(found, Reconciled):
            given = type(found).__name__
            return Reconciled.cannot_tell(f"The reconcile of {name} gave {given}, no Reconciled.")
        if found.result is not None and not found.result.success:
            told = f"a failure as its result ({found.result.message}), and only successes are kept"
            return Reconciled.cannot_tell(f"The reconcile of {name} gave {told}.")
        return found

    def _record(
        self, entry: LedgerEntry, token: str, found: Reconciled, context: ToolContext
    ) -> Reconciled:
        claim, now = entry.claim, context.clock.now()
        result: RecordedResult | str = NOT_HAPPENED
        if found.has_happened:
            try:
                result = _recorded(self.tool, found)
            except ToolValidationError as error:
                why = f"It has happened, but its result does not fit: {in_one_line(error)}."
                found = Reconciled.cannot_tell(why)
            except ValueError as error:
                why = (
                    f"It has happened, but its result cannot be recorded: {why_unwritable(error)}."
                )
                found = Reconciled.cannot_tell(why)
        if found.has_happened is None:
            log.warning("Whether %s has happened stays unknown: %s", claim.key, found.reason)
            self.defer(entry, token, self.pause_after(entry, now))
            return found
        ttl = None if self.tool.idempotency is None else self.tool.idempotency.ttl
        # Because with a clock that was set back, the result would expire at once.
        ends = end_of(max(now_of(self._store, context.clock), claim.created_at), ttl)
        self._ledger.keeper.drop(claim.effect_id)
        key, effect_id = claim.key, claim.effect_id
        if not self._store.settle(key, effect_id, result, ends, token=token):
            return Reconciled.cannot_tell("It was resolved elsewhere in the meantime.")
        log.info("The reconciliation of %s found: %s.", claim.key, name_of(found))
        return found


class _Undoer(Reconciler):
    """Undoes owed effects of a tool; that an effect has not happened any more is the finding."""

    doing = "Its undo"

    def hold(self, entry: LedgerEntry, token: str, *, at_once: bool = False) -> bool:  # noqa: ARG002 - never deferred
        # The claim gets the token as its id, so that the call cannot record the effect any more.
        claim, over = entry.claim._replace(effect_id=token), entry.claim.effect_id
        # Before all times, because an undone effect has expired, but is not undone again.
        now = datetime.min.replace(tzinfo=UTC)
        if self._ledger.store.claim(claim, now=now, over=over) is not None:
            return False
        self._ledger.keeper.hold(token, claim.key)
        return True

    def defer(self, entry: LedgerEntry, token: str, seconds: float) -> None:  # noqa: ARG002 - as above
        now = self._ledger.store.get(entry.claim.key)
        if now and (now.claim.effect_id, now.state) == (token, EffectState.CLAIMED):
            self._end(now, token, "Its undo was not finished.")

    def _record(
        self, entry: LedgerEntry, token: str, found: Reconciled, context: ToolContext
    ) -> Reconciled:
        del context
        is_undone = found.has_happened is not None
        self._end(entry, token, *((UNDONE, PAST) if is_undone else (found.reason,)))
        return found

    def _end(self, entry: LedgerEntry, token: str, *reason_and_end: Any) -> None:
        self._ledger.keeper.drop(token)
        self._ledger.store.mark_unknown(entry.claim.key, token, *reason_and_end)


def name_of(found: Reconciled) -> str:
    """Return a finding in a word, for events and lists."""
    did_not = found.reason or "did_not"
    return {None: "cannot_tell", True: "happened", False: did_not}[found.has_happened]


async def _undo_effect(
    tool: Tool[Any, Any], dispatcher: Dispatcher | None, entry: LedgerEntry, context: ToolContext
) -> Reconciled:
    if entry.claim.owed_id is None:
        return Reconciled.cannot_tell("Its params were not kept: its tool had no undo then.")
    effect_id, given, value = json.loads(entry.claim.params or b"")
    if dispatcher is not None:
        outcome = await asyncio.to_thread(dispatcher.find, effect_id)
        # A call that is withdrawn cannot begin after its undo.
        if not (outcome or await asyncio.to_thread(dispatcher.withdraw, effect_id)):
            return Reconciled.cannot_tell(_ON_WORKER)
    params = tool.params_codec.decode(json.dumps(given))
    result = None if value is None else tool.result_codec.decode(json.dumps(value))
    undone = await _called(tool.undo, params, result, effect_id, context)
    if isinstance(undone, ToolResult) and not undone.success:
        return Reconciled.cannot_tell(f"Its undo failed: {undone.message}")
    return Reconciled(has_happened=False, reason="undone")


async def _called(function: Any, *arguments: Any) -> Any:
    if is_async_callable(function):
        return await function(*arguments)
    found = await asyncio.to_thread(function, *arguments)
    return await found if inspect.isawaitable(found) else found


async def _ask_function(
    tool: Tool[Any, Any], reconcile: Any, entry: LedgerEntry, context: ToolContext
) -> Any:
    claim = entry.claim
    if claim.params is None:
        return Reconciled.cannot_tell("Its params were not kept: its tool had no reconcile then.")
    return await _called(reconcile, tool.params_codec.decode(claim.params), claim.key, context)


def _recorded(tool: Tool[Any, Any], found: Reconciled) -> RecordedResult:
    """Return the result of a finding, in the form of a record.

    Raises:
        ToolValidationError: The tool cannot return it.
        ValueError: It has no JSON form.
    """
    result = ToolResult[Any]("") if found.result is None else found.result
    if result.value is None:
        return RecordedResult(result.message, excluded=result.exclude_value_from_context)
    codec = tool.result_codec
    written = codec.encode(result.value)
    codec.decode(written)
    given = RecordedResult(result.message, written, result.exclude_value_from_context)
    shown = secrets_of(json.loads(written), codec.secret_schema())
    return with_masks(given, masked=secrets_in(result.value), others=shown)


_SHAPE: Final = (
    '{"happened": true, false or null}, with "value" and "message" if it has happened, and '
    '"reason" if that is unknown'
)


class Answer(BaseModel):
    """The answer of the other tool.

    Args:
        happened: Whether the call has happened; None if the tool does not know.
        value: The value that later calls get.
        message: The message that later calls get.
        reason: Why the tool does not know.
    """

    model_config = ConfigDict(strict=True)

    happened: bool | None
    value: Any = None
    message: str = ""
    reason: str = "It gives no reason."


async def ask_other(
    tool: Tool[Any, Any], other: OtherTool, entry: LedgerEntry, context: ToolContext
) -> Reconciled:
    """Ask another tool whether an effect of a tool has happened."""
    known: dict[str, Any] = {"key": entry.claim.key}
    if entry.claim.params is not None:
        known["params"] = json.loads(entry.claim.params)
    try:
        arguments = {name: _at(path, known) for name, path in other.arguments.items()}
    except LookupError as error:
        return Reconciled.cannot_tell(f"The call has no {error.args[0]}, which {other.tool} needs.")
    outcome = await context.acall(other.tool, arguments)
    if not outcome.success:
        return Reconciled.cannot_tell(f"{other.tool} failed: {outcome.text}")
    try:
        answer = Answer.model_validate_json(outcome.data or b"null")
        if not answer.happened:
            told = Reconciled.cannot_tell(f"{other.tool} cannot tell: {answer.reason}")
            return told if answer.happened is None else Reconciled.did_not()
        value = answer.value
        typed = None if value is None else tool.result_codec.decode(json.dumps(value))
    except ValidationError:
        return Reconciled.cannot_tell(f"The value of {other.tool} must be {_SHAPE}.")
    except ToolValidationError as error:
        return Reconciled.cannot_tell(
            f"The value from {other.tool} does not fit: {in_one_line(error)}."
        )
    return Reconciled.happened(ToolResult(answer.message, typed))


def _at(path: str, known: object) -> Any:
    """Return the part of the data at a path such as `params.item`; raises `LookupError`."""
    found = known
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            raise LookupError(path)
        found = cast("Mapping[str, object]", found)[name]
    return found


class Inquiry(NamedTuple):
    """One unknown effect in a pass; without a token of a hold, the pass does not ask about it."""

    entry: LedgerEntry
    due: Due
    reconciler: Reconciler | None
    token: str | None


class Reconciliation(NamedTuple):
    """The result of a pass for one unknown effect, whose entry is from before the pass.

    `found` is the finding, by its name in events, or `ELSEWHERE`; None if a person has to ask.
    """

    entry: LedgerEntry
    found: str | None
    due: Due


@contextmanager
def reconciling(host: HostHandle, settings: LedgerSettings) -> Generator[None]:
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
    # Owed effects are undone as soon as a host opens; others only while it stays open.
    pause = _SOON if any(tool.undo for tool in host.catalog) else settings.reconcile_every
    while not closing.wait(pause):
        if getattr(host, "is_open", True):
            reconcile_quietly(host, settings, closing=closing, alarms=alarms)
            pause = settings.reconcile_every


def reconcile_quietly(
    host: HostHandle,
    settings: LedgerSettings,
    closing: threading.Event | None = None,
    **options: Any,
) -> None:
    """Ask about unknown effects, and log failures; see `reconcile_pass`."""
    try:
        for _ in reconcile_pass(host, settings, **options):
            if closing is not None and closing.is_set():
                return
    except (LedgerError, StateError) as error:
        log.debug("Unknown effects are reconciled later: %s", error)
    except Exception:
        log.exception("Unknown effects could not be reconciled. The host tries again.")


def undo_owed(host: HostHandle, settings: LedgerSettings, key: str) -> None:
    """Undo the owed effect of a key; wait for its undo if another pass runs it."""
    reconcile_quietly(host, settings, key=key, at_once=True)
    with suppress(LedgerError, StateError), host.executor() as tools:  # the host may be closed
        ledger = tools.resources.get(EffectLedger)
        until = time.monotonic() + ledger.wait
        while (entry := ledger.store.get(key)) and state_of(entry) == "undoing":
            if time.monotonic() >= until:
                return
            time.sleep(_AGAIN)  # another process may run it, so only the store tells its end


def reconcile_pass(
    host: HostHandle,
    settings: LedgerSettings,
    *,
    key: str | None = None,
    at_once: bool = False,
    alarms: set[str] | None = None,
) -> Iterator[Reconciliation]:
    """Ask about all unknown effects whose tool has a reconciler; yield a result for each.

    Args:
        host: The host.
        settings: The settings of the ledger.
        key: The key of the only effect of the pass.
        at_once: Whether to ask also about deferred effects.
        alarms: The effects past their deadline that have been reported; None yields all effects.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    current: list[Inquiry] = []

    @tool(name=RECONCILE_TOOL, category="read", timeout=None)
    async def ledger_reconcile(key: str, *, context: ToolContext) -> ToolResult[Any]:
        """Find out whether an unknown effect has happened."""
        context.set_attribute("ledger.key", key)
        return await _ask(current[0], context)

    with host.executor(tools=[ledger_reconcile]) as tools:
        ledger = tools.resources.get(EffectLedger)
        dispatcher = tools.resources.get(Dispatcher, None)  # type: ignore[type-abstract]
        store = store_of(ledger)
        unsettled = [*store.unsettled()] if isinstance(store, SettlesUnknown) else []
        # The newest first, as undos have to be.
        for entry in reversed(unsettled):
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
                    yield Reconciliation(entry, ELSEWHERE if reconciler and at_once else None, due)
                continue
            if due.is_over and alarms is not None and not is_seen:
                alarms.add(entry.claim.effect_id)
                _alarm(entry, due)
            current[:] = [Inquiry(entry, due, reconciler, token)]
            yield Reconciliation(entry, _dispatch(tools, current[0], settings.backoff), due)


def _dispatch(tools: ExecutorHandle, inquiry: Inquiry, pause: float) -> str | None:
    entry, _, reconciler, token = inquiry
    try:
        outcome = tools.dispatch(SettlingCall(RECONCILE_TOOL, {"key": entry.claim.key}))
        found = outcome.event.attributes.get("ledger.reconciled")
        return None if found is None else str(found)
    finally:
        if reconciler is not None and token is not None:
            # Because a policy may have denied the call; otherwise this changes nothing.
            reconciler.defer(entry, token, pause)


async def _ask(inquiry: Inquiry, context: ToolContext) -> ToolResult[Any]:
    entry, due, reconciler, token = inquiry
    name = entry.claim.tool_name
    if reconciler is not None and token is not None:
        found = await reconciler.inquire(entry, token, context)
        if found.has_happened is not None:
            return ToolResult.ok(message=f"{name}: {name_of(found)}.")
    context.set_attribute("ledger.due", str(due))
    told = f"{_open_end(entry, entry.claim.key)}: {due}."
    return ToolResult.error(told) if due.is_over else ToolResult.ok(message=told)


def _open_end(entry: LedgerEntry, name: str) -> str:
    if entry.claim.owed_id:
        return f"The undo of {name} is owed"
    return f"Whether {name} has happened is unknown"


def _alarm(entry: LedgerEntry, due: Due) -> None:
    key, name = entry.claim.key, _open_end(entry, f"a call of {entry.claim.tool_name}")
    remedy = f"Find out, then resolve it: toolstile ledger resolve '{key}'."
    if entry.claim.owed_id:
        remedy = f"Retry it: {noted_for_operator(messages.unknown(entry))}"
    log.warning("%s: %s. %s", name, due, remedy, extra=NOTICE)
