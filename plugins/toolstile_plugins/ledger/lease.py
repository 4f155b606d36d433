"""A call's lease on its key, from the claim to the record: the participant that decides.

Changes of a nested call are on the branch of its caller until the top-level call commits. An
earlier hit would show changes that may still be rolled back, or make them twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from toolstile_hookspecs import (
    CallClosed,
    CallRefused,
    HandlerState,
    IdempotencyConfig,
    Tool,
    ToolContext,
)
from toolstile_hookspecs.context import CallControl
from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry, RecordedResult
from toolstile_hookspecs.services.session_store import Decision
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_plugins.leases import now_of
from toolstile_plugins.ledger import messages as wording
from toolstile_plugins.ledger.api import (
    EffectLedger,
    HandlerEnd,
    HostLedger,
    decision_key,
    end_of,
    gives_key_back,
)
from toolstile_plugins.ledger.keys import printable_session
from toolstile_plugins.ledger.undoing import Refunds

if TYPE_CHECKING:
    from toolstile_plugins.ledger.reconcile import Reconciler


@dataclass(slots=True)
class Uncommitted:
    """An effect of this process whose changes are on a branch.

    Args:
        result: The result of its call.
        holder: The call whose branch has the changes; None for a top-level call, and while the
            changes are rolled back.
        contained: Whether the effect is undone if that call is rolled back.
    """

    result: RecordedResult
    holder: ToolContext | None
    contained: bool


_by_effect: dict[str, Uncommitted] = {}


def as_seen_by(context: ToolContext, entry: LedgerEntry) -> LedgerEntry:
    """Return an entry for a call: done if the call sees the changes, else claimed."""
    uncommitted = _by_effect.get(entry.claim.effect_id)
    if uncommitted is None:
        return entry
    if _is_within(uncommitted.holder, context):
        return entry._replace(state=EffectState.DONE, result=uncommitted.result)
    result, session_id = uncommitted.result, printable_session(context.session.id)
    if not changes_something(result) or entry.claim.session_id != session_id:
        return entry
    return entry._replace(state=EffectState.CLAIMED, result=None)


def waits_in_vain(context: ToolContext, entry: LedgerEntry) -> bool:
    """Return whether the other call may wait for a call or transaction around this call."""
    noted = _by_effect.get(entry.claim.effect_id)
    holder = None if noted is None else noted.holder
    # Calls that run beside this one in a transaction wait for no others.
    is_held = holder is not None and not _is_within(holder, context)
    return context.parent is not None or (is_held and context.transaction is not None)


def without_effects(changes: str, is_left_out: Callable[[str], bool]) -> str:
    """Return the changes of a call without those of nested effects that `is_left_out` names."""
    entries = json.loads(changes)
    kept = [entry for entry in entries if "effect" not in entry or not is_left_out(entry["effect"])]
    return changes if kept == entries else json.dumps(kept, ensure_ascii=False)


def changes_something(result: RecordedResult) -> bool:
    """Return whether an effect also changes its session."""
    return result.changes is not None or result.unportable is not None


def _may_be_put_back(effect_id: str) -> bool:
    noted = _by_effect.get(effect_id)
    return noted is not None and noted.contained


def _is_within(holder: ToolContext | None, context: ToolContext) -> bool:
    caller = around(context)
    while caller is not None:
        if caller is holder:
            return True
        caller = around(caller)
    return False


def around(context: ToolContext) -> ToolContext | None:
    """Return the context of the call or transaction whose branch a call's changes join."""
    return context.parent or context.transaction


# The states of a call's key. FREE also if the call has no key: no claim yet, or a recorded result;
# OVER if its claim is settled. Numbers, because Python 3.11 finds a member of an Enum slowly.
_FREE, _CLAIMED, _RECORDED, _OVER = range(4)


class Lease:
    """The claim of a call of an idempotent tool; a participant of the call.

    A call that runs again after a conflict keeps its lease.

    Attributes:
        decides: Its record is the decision: a recorded effect has happened.
        handler_end: The end of its handler, if its effect can be reconciled.
    """

    decides = True
    name = "the ledger"

    def __init__(
        self,
        ledger: EffectLedger,
        tool: Tool[Any, Any],
        context: ToolContext,
        leases: dict[CallControl, Lease],
        reconciler: Reconciler | None,
    ) -> None:
        assert tool.idempotency is not None  # noqa: S101 - others are not asked for
        assert context.control is not None  # noqa: S101 - the host calls
        self.tool = tool
        self.config: IdempotencyConfig = tool.idempotency
        self.control = context.control
        self.claim: Claim | None = None
        self.ledger = ledger
        self.reconciler = reconciler
        self.handler_end: HandlerEnd | None = None
        self.enter(context)
        self._state = _FREE
        self._joined = False
        # Whether changes of nested calls that may still be rolled back are not recorded yet.
        self._is_partial = False
        self._awaits_handler = False
        self._result: RecordedResult | None = None
        self._uncommitted: Uncommitted | None = None
        self._leases = leases
        self._lock = threading.RLock()

    def enter(self, context: ToolContext) -> None:
        """Take the context of the call, which is new each time that it runs."""
        self.context = context
        if self.reconciler is not None:
            self.handler_end = context.resources.get(HandlerEnd)
            self._refund = context.resources.get(HostLedger).refund
            # Undone when the call or transaction around it has released all that it holds.
            self._end = (around(context) or context).resources.get(HandlerEnd)

    @property
    def is_put_back(self) -> bool:
        """True if the effect is gone after a rollback of the call around it, or an undo."""
        return bool(self.tool.contained or self.tool.undo)

    @property
    def undone_by(self) -> type[Refunds] | None:
        """The type of the resource whose `undo` takes the effect back; None if nothing can."""
        can_owe = self.is_put_back and hasattr(self.ledger.store, "owe")
        return Refunds if self.claim is not None and can_owe else None

    def reverse(self) -> str:
        """Return how to undo the effect, as text; see `Reversible`."""
        if self._result is None:
            self._come_to_result(None)
        claim = self._with_result()
        made = [f"the effect of {claim.tool_name}"] if claim.owed_id else []
        params = (claim.params or b"").decode() if made else ""
        noted = {"made": made, "key": claim.key, "effect": claim.effect_id, "params": params}
        return json.dumps(noted)

    def _with_result(self) -> Claim:
        """Return a claim that owes an undo, with the result unless that holds a secret."""
        claim, result = self.claim, self._result
        assert claim is not None  # noqa: S101 - it is made before the handler
        if not claim.owed_id or result is None or result.value is None or result.secret:
            return claim
        params = (claim.params or b"").removesuffix(b"null]") + result.value + b"]"
        return claim._replace(params=params)

    @property
    def key(self) -> str | None:
        """The key for journals to ask for the record after a crash.

        None for a nested call that was recorded before the decision on its changes.
        """
        if self.claim is None or (self._joined and self._state is not _CLAIMED):
            return None
        return decision_key(self.claim)

    def diff(self) -> str:
        """Return nothing, because a record is not a change to show."""
        return ""

    def begin(self, claim: Claim) -> None:
        """Register a claim with the keeper before it is made."""
        self.claim = claim
        self.ledger.keeper.hold(claim.effect_id, claim.key, self._left_behind)

    def take(self) -> bool:
        """Take over the claim that was just made; return False if the call is over."""
        with self._lock:
            if self._state is _OVER:
                return False
            self._state = _CLAIMED
        return True

    def forget_claim(self) -> None:
        """Drop a claim that was not made."""
        claim, self.claim = self.claim, None
        if claim is not None:
            self.ledger.keeper.drop(claim.effect_id)

    def _left_behind(self) -> Callable[[], object] | None:
        """Return a function that settles the claim of a call that was interrupted at its end."""
        claim = self.claim
        if self._awaits_handler or claim is None or not self.control.is_over:
            return None
        self._leases.pop(self.control, None)
        return partial(self._settle_if_claimed, claim, is_free=self._is_free)

    # --- the participant ---

    @property
    def waits(self) -> bool:
        """True if recording may wait, so that the host does it off the event loop."""
        return self.ledger.store.waits

    def join(self) -> None:
        """Record a nested call when it succeeds; a contained one when its caller succeeds."""
        if self._joined:
            # The caller has joined its own caller.
            if self._uncommitted is not None and self._uncommitted.holder is not None:
                self._uncommitted.holder = around(self._uncommitted.holder)
            return
        self._joined = True
        if not self._come_to_result(around(self.context)):
            return
        if self.is_put_back:
            self.context.set_attribute("ledger.state", "claimed")
        else:
            # The part of the result that stays even if the caller fails.
            result = self._result
            assert result is not None  # noqa: S101 - it is there before it is recorded
            certain = result
            if result.changes is not None:
                kept = without_effects(result.changes, _may_be_put_back)
                certain = result._replace(changes=kept)
            self._is_partial = certain != result
            self._record(certain, Decision(None, None))

    def prepare(self) -> None:
        """Make the result to record."""
        if not self._joined and self._result is None:
            self._come_to_result(None)

    @property
    def contributes(self) -> bool:
        """True if a part of the call is still to be recorded."""
        return self._state is _CLAIMED or self._is_partial

    @contextmanager
    def together(self) -> Generator[None]:
        """Make the records of several leases one transaction, if the store has `together`."""
        store, name = self.ledger.store, self.tool.name
        try:
            with getattr(store, "together", nullcontext)():
                yield
        except CallRefused:
            raise
        except Exception as error:
            raise wording.unwritten(name, wording.failure(store, error)) from error

    def contribute(self, decision: Decision) -> None:
        """Record the call, with the changes that waited for its callers; that is the decision."""
        assert self._result is not None  # noqa: S101 - it was prepared, or has joined
        self._record(self._result, decision)
        self._is_partial = False

    def commit(self) -> None:
        """Release the key; first record the rest that an interrupted decision has left."""
        if self.contributes:
            self.contribute(Decision(None, None))
        self._state = _OVER
        self._leases.pop(self.control, None)
        self._forget()

    def leave(self) -> None:
        """Leave the claim to the keeper, because it is unknown whether the record was kept."""
        self._state = _OVER
        self._leases.pop(self.control, None)
        if self.claim is not None:
            self.ledger.keeper.drop(self.claim.effect_id)
            self.ledger.keeper.settle_later(
                partial(self._settle_if_claimed, self.claim, is_free=False)
            )

    def _settle_if_claimed(self, claim: Claim, *, is_free: bool) -> None:
        store = self.ledger.store
        entry = store.get(claim.key)
        if entry and (entry.claim.effect_id, entry.state) == (claim.effect_id, EffectState.CLAIMED):
            if is_free:
                store.release(claim.key, claim.effect_id)
            else:
                self._lose(claim, "Its store could not tell whether the call was kept.")
        self._forget()

    def _lose(self, claim: Claim, reason: str) -> None:
        """Record that the effect may have happened, and is owed an undo if there is one."""
        store: Any = self.ledger.store
        if not claim.owed_id:
            store.mark_unknown(claim.key, claim.effect_id, reason)
        elif not store.owe(self._with_result(), reason, EffectState.CLAIMED):
            # Its undo may have come before the effect, because this process had lost its lease. It
            # is owed again, under another key.
            late = self._with_result()._replace(key=f"{claim.key}/{claim.effect_id}")
            store.claim(late, now=late.created_at)
            store.owe(late, reason, EffectState.CLAIMED)
            self._end.then(partial(self._refund, late.key))

    def rollback(self) -> None:
        """Settle a nested call that had succeeded; the hook settles all other calls."""
        if self._joined and (self.is_put_back or self._state is not _CLAIMED):
            self.settle("The call that made it was rolled back.")

    @deferred_interrupts()
    def settle(self, reason: str) -> None:
        """Release the key of a call that was rolled back, or mark its effect as unknown."""
        with self._lock:
            before, self._state = self._state, _OVER
            claim = self.claim
        self._leases.pop(self.control, None)
        if claim is None or before is _OVER:
            return
        if self._joined and before is _RECORDED and not self.is_put_back:
            # Because it succeeded, its effect outside stays even if its caller is rolled back.
            self.ledger.keeper.drop(claim.effect_id)
            self._forget()
            return
        store, is_free = self.ledger.store, self._is_free
        # The event of a nested call that succeeded is published already.
        with suppress(CallClosed):
            lost = "owed" if claim.owed_id else "unknown"
            self.context.set_attribute("ledger.state", "released" if is_free else lost)
        settling: Callable[[], object]
        if is_free:
            settling = partial(store.release, claim.key, claim.effect_id)
        else:
            settling = partial(self._lose, claim, reason)
        if self._uncommitted is not None:
            self._uncommitted.holder = None
            settling = partial(self._settle_and_forget, settling)
        if self.handler_end is None:
            self._write(claim, settling)
        else:
            self._awaits_handler = True
            self.handler_end.then(partial(self._write, claim, settling))
        if claim.owed_id and not is_free:
            self._end.then(partial(self._refund, claim.key))

    def _write(self, claim: Claim, settling: Callable[[], object]) -> None:
        if self.ledger.store.waits and is_on_loop():
            self.ledger.keeper.settle_later(settling)
        else:
            self.ledger.keeper.settle(settling)
        # Last, because an interrupted write leaves the claim to the keeper.
        self.ledger.keeper.drop(claim.effect_id)

    def _settle_and_forget(self, settling: Callable[[], object]) -> None:
        """Hide the recorded effect until its entry is correct."""
        settling()
        self._forget()

    @property
    def _is_free(self) -> bool:
        """True if the call has no effect: contained, not begun, or failed without effect."""
        state = self.control.handler_state
        if self.tool.contained or state is HandlerState.NOT_BEGUN:
            return True
        asks_tool = self.reconciler is not None and self.reconciler.asks_tool
        return gives_key_back(self.tool, state, asks_tool=asks_tool)

    def _come_to_result(self, holder: ToolContext | None) -> bool:
        """Take the result to record; `holder` is the call whose branch gets the changes."""
        claim = self.claim
        if self._state is not _CLAIMED or claim is None:
            return False
        record = self.control.keep(claim.effect_id)
        result = record.result
        recorded = self._result = RecordedResult(
            result.message,
            record.value,
            result.exclude_value_from_context,
            record.changes,
            record.unportable,
            record.secret,
        )
        if holder is not None or changes_something(recorded):
            noted = Uncommitted(recorded, holder, contained=self.is_put_back)
            # Hide an effect from other calls until `_forget`.
            _by_effect[claim.effect_id] = noted
            self._uncommitted = noted
        return True

    def _record(self, result: RecordedResult, decision: Decision) -> None:
        with self._lock:
            claim = self.claim
            if self._state is _OVER or claim is None:
                return
            key, effect_id, ledger = claim.key, claim.effect_id, self.ledger
            # Nothing is lost of a record that is only completed.
            is_whole, name = not self._is_partial, self.tool.name
            try:
                until = end_of(now_of(ledger.store, self.context.clock), self.config.ttl)
                if decision.connection is None or ledger.joining is None:
                    kept = ledger.store.finish(key, effect_id, result, until)
                else:
                    refusal = wording.lost(name) if is_whole else None
                    kept = ledger.joining.finish_within(
                        decision.connection, key, effect_id, result, until, refusal=refusal
                    )
            except Exception as error:
                raise wording.unwritten(name, wording.failure(ledger.store, error)) from error
            if not kept and is_whole:
                self._state = _CLAIMED if claim.owed_id else _OVER
                self._forget()
                raise wording.lost(name)
            self._state = _RECORDED
        ledger.keeper.drop(effect_id)
        try:
            self.control.set_attribute("ledger.state", "recorded")
        except CallClosed:
            return  # the event of a nested call that succeeded is published already

    def _forget(self) -> None:
        if self._uncommitted is not None and self.claim is not None:
            _by_effect.pop(self.claim.effect_id, None)
