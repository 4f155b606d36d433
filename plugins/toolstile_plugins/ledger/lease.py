"""A call's hold on its key, from the claim to the record: the participant that decides.

Changes of a nested call are on the branch of its caller until the top-level call commits. A hit
before that would show changes that may still be put back, or make them twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

from toolstile_hookspecs import CallClosed, HandlerState, IdempotencyConfig, Tool, ToolContext
from toolstile_hookspecs.context import CallControl
from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry, RecordedResult
from toolstile_hookspecs.services.session_store import Decision
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_plugins.ledger import messages as wording
from toolstile_plugins.ledger.api import EffectLedger, decision_key, end_of
from toolstile_plugins.ledger.keys import printable_session
from toolstile_plugins.ledger.reconcile import HandlerEnd, Reconciler, gives_key_back


@dataclass(slots=True)
class Uncommitted:
    """An effect of this process whose changes are on a branch.

    Args:
        result: The result of its call.
        holder: The call whose branch has the changes; None for a top-level call, and while it is
            being put back.
        contained: Whether it counts as not having happened if that call is rolled back.
    """

    result: RecordedResult
    holder: ToolContext | None
    contained: bool


_by_effect: dict[str, Uncommitted] = {}


def forget_uncommitted(effect_id: str) -> None:
    """Hide an effect no longer: it is committed or put back."""
    _by_effect.pop(effect_id, None)


def as_seen_by(context: ToolContext, entry: LedgerEntry) -> LedgerEntry:
    """Return an entry as a call sees it: done where it sees the changes, else under way."""
    uncommitted = _by_effect.get(entry.claim.effect_id)
    if uncommitted is None:
        return entry
    if _is_within(uncommitted.holder, context):
        return entry._replace(state=EffectState.DONE, result=uncommitted.result)
    result, session_id = uncommitted.result, printable_session(context.session.id)
    if not changes_something(result) or entry.claim.session_id != session_id:
        return entry
    return entry._replace(state=EffectState.CLAIMED, result=None)


def without_effects(changes: str, is_left_out: Callable[[str], bool]) -> str:
    """Return what a call changed, without the effects within it that are left out, by their ids."""
    entries = json.loads(changes)
    kept = [entry for entry in entries if "effect" not in entry or not is_left_out(entry["effect"])]
    return changes if kept == entries else json.dumps(kept, ensure_ascii=False)


def changes_something(result: RecordedResult) -> bool:
    """Tell whether an effect changes its session, too."""
    return result.changes is not None or result.unportable is not None


def _may_be_put_back(effect_id: str) -> bool:
    noted = _by_effect.get(effect_id)
    return noted is not None and noted.contained


def _is_within(holder: ToolContext | None, context: ToolContext) -> bool:
    caller = context.parent
    while caller is not None:
        if caller is holder:
            return True
        caller = caller.parent
    return False


JOINED_AND_LOST = "The call that made it was rolled back."
UNDECIDED = "Its store could not tell whether the call was kept."


class Hold(Enum):
    """The state of a call's key."""

    FREE = auto()
    """It has none: it did not claim yet, or got a recorded result."""
    CLAIMED = auto()
    RECORDED = auto()
    OVER = auto()
    """The claim is settled."""


# Names of their own: on Python 3.11 it takes ten times as long to look one up in its class.
_FREE, _CLAIMED, _RECORDED, _OVER = Hold


class Holding:
    """The claim of a call of an idempotent tool; a participant of the call.

    One for the life of a call, also when it is run again after a conflict.

    Attributes:
        decides: Its record is the decision: a recorded effect has happened.
        handler_end: The end of its handler, where something says what became of its effect.
    """

    __slots__ = (
        "_awaits_handler",
        "_holdings",
        "_is_partial",
        "_joined",
        "_lock",
        "_result",
        "_state",
        "_uncommitted",
        "claim",
        "config",
        "context",
        "control",
        "handler_end",
        "ledger",
        "reconciler",
        "tool",
    )

    decides = True
    name = "the ledger"

    def __init__(
        self,
        ledger: EffectLedger,
        tool: Tool[Any, Any],
        context: ToolContext,
        holdings: dict[CallControl, Holding],
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
        self.context = context
        if reconciler is not None:
            self.handler_end = context.resources.get(HandlerEnd)
        self._state = _FREE
        self._joined = False
        # Whether changes of calls within it that may still be put back are not recorded yet.
        self._is_partial = False
        self._awaits_handler = False
        self._result: RecordedResult | None = None
        self._uncommitted: Uncommitted | None = None
        self._holdings = holdings
        self._lock = threading.RLock()

    def enter(self, context: ToolContext) -> None:
        """Take the context of the call, another one each time that it runs."""
        self.context = context
        if self.reconciler is not None:
            self.handler_end = context.resources.get(HandlerEnd)

    @property
    def key(self) -> str | None:
        """The key that journals note, to ask after a crash for the record.

        None for a nested call that was recorded before its changes are decided on.
        """
        if self.claim is None or (self._joined and self._state is not _CLAIMED):
            return None
        return decision_key(self.claim)

    def diff(self) -> str:
        """Return nothing: a record is not a change to show."""
        return ""

    def begin(self, claim: Claim) -> None:
        """Have a claim kept that is about to be made."""
        self.claim = claim
        self.ledger.leases.hold(claim.effect_id, claim.key, self._left_behind)

    def take(self) -> bool:
        """Hold the claim that was just made; returns whether the call still wants it."""
        with self._lock:
            if self._state is _OVER:
                return False
            self._state = _CLAIMED
        return True

    def forget_claim(self) -> None:
        """Keep a claim no longer that was not made."""
        claim, self.claim = self.claim, None
        if claim is not None:
            self.ledger.leases.drop(claim.effect_id)

    def _left_behind(self) -> Callable[[], object] | None:
        """Return how to settle the claim of a call that is over and was kept from settling it."""
        claim = self.claim
        if self._awaits_handler or claim is None or not self.control.is_over:
            return None
        self._holdings.pop(self.control, None)
        return partial(self._settle_if_claimed, claim, is_free=self._is_free)

    # --- the participant ---

    @property
    def waits(self) -> bool:
        """True when recording may wait, so that it is kept off event loops."""
        return self.ledger.store.waits

    def join(self) -> None:
        """Record a nested call at its own success; a contained one waits for its caller's."""
        if self._joined:
            # The call around this one has joined its own caller.
            if self._uncommitted is not None and self._uncommitted.holder is not None:
                self._uncommitted.holder = self._uncommitted.holder.parent
            return
        self._joined = True
        if not self._come_to_result(self.context.parent):
            return
        if self.tool.contained:
            self.context.set_attribute("ledger.state", "claimed")
        else:
            # The part of the result that is certain, even if the call around this one fails.
            result = self._result
            assert result is not None  # noqa: S101 - it is there before it is recorded
            certain = (
                result
                if result.changes is None
                else result._replace(changes=without_effects(result.changes, _may_be_put_back))
            )
            self._is_partial = certain != result
            self._record(certain, Decision(None, None))

    def prepare(self) -> None:
        """Come to what is to be recorded."""
        if not self._joined:
            self._come_to_result(None)

    @property
    def contributes(self) -> bool:
        """True when something of the call is still to be recorded."""
        return self._state is _CLAIMED or self._is_partial

    def contribute(self, decision: Decision) -> None:
        """Record the call, and what waited for the calls around it; done, it has happened."""
        assert self._result is not None  # noqa: S101 - it was prepared, or has joined
        self._record(self._result, decision)
        self._is_partial = False

    def commit(self) -> None:
        """Let go of the key; record first what an interrupted decision has left."""
        if self.contributes:
            self.contribute(Decision(None, None))
        self._state = _OVER
        self._holdings.pop(self.control, None)
        self._forget()

    def leave(self) -> None:
        """Leave the claim as it is: nobody knows whether its record was kept."""
        self._state = _OVER
        self._holdings.pop(self.control, None)
        if self.claim is not None:
            self.ledger.leases.drop(self.claim.effect_id)
            self.ledger.leases.settle_later(
                partial(self._settle_if_claimed, self.claim, is_free=False)
            )

    def _settle_if_claimed(self, claim: Claim, *, is_free: bool) -> None:
        store = self.ledger.store
        entry = store.get(claim.key)
        if entry and (entry.claim.effect_id, entry.state) == (claim.effect_id, EffectState.CLAIMED):
            if is_free:
                store.release(claim.key, claim.effect_id)
            else:
                store.doubt(claim.key, claim.effect_id, UNDECIDED)
        self._forget()

    def rollback(self) -> None:
        """Settle a nested call that had succeeded; for all others the hook calls `settle`."""
        if self._joined and (self.tool.contained or self._state is not _CLAIMED):
            self.settle(JOINED_AND_LOST)

    @deferred_interrupts()
    def settle(self, reason: str) -> None:
        """Give the key back, or say that the effect is unknown, when the call was rolled back."""
        with self._lock:
            before, self._state = self._state, _OVER
            claim = self.claim
        self._holdings.pop(self.control, None)
        if claim is None or before is _OVER:
            return
        settling = self._settling(claim, before, reason)
        if settling is None:
            self.ledger.leases.drop(claim.effect_id)
            self._forget()
            return
        if self._uncommitted is not None:
            self._uncommitted.holder = None
            settling = partial(self._settle_and_forget, settling)
        if self.handler_end is None:
            self._write(claim, settling)
        else:
            self._awaits_handler = True
            self.handler_end.then(partial(self._write, claim, settling))

    def _write(self, claim: Claim, settling: Callable[[], object]) -> None:
        """Write the outcome of a claim that is held no longer."""
        if self.ledger.store.waits and is_on_loop():
            self.ledger.leases.settle_later(settling)
        else:
            self.ledger.leases.settle(settling)
        # Last: whoever interrupts the write leaves the claim to the keeper.
        self.ledger.leases.drop(claim.effect_id)

    def _settle_and_forget(self, settling: Callable[[], object]) -> None:
        """Hide the recorded effect until it is put right."""
        settling()
        self._forget()

    def _settling(self, claim: Claim, before: Hold, reason: str) -> Callable[[], object] | None:
        store = self.ledger.store
        if self._joined and before is _RECORDED and not self.tool.contained:
            # It succeeded, and what it did outside is there, whatever became of its caller.
            return None
        is_free = self._is_free
        # Of a nested call that had succeeded the event is out already.
        with suppress(CallClosed):
            self.context.set_attribute("ledger.state", "released" if is_free else "unknown")
        if is_free:
            return partial(store.release, claim.key, claim.effect_id)
        return partial(store.doubt, claim.key, claim.effect_id, reason)

    @property
    def _is_free(self) -> bool:
        """True if nothing of the call is left: contained, not begun, or failed without effect."""
        state = self.control.handler_state
        if self.tool.contained or state is HandlerState.NOT_BEGUN:
            return True
        asks_tool = self.reconciler is not None and self.reconciler.asks_tool
        return gives_key_back(self.tool, state, asks_tool=asks_tool)

    def _come_to_result(self, holder: ToolContext | None) -> bool:
        """Take the result to record; `holder` is the call whose branch takes in the changes."""
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
            noted = Uncommitted(recorded, holder, contained=bool(self.tool.contained))
            # Hide an effect from other calls until `forget_uncommitted`.
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
                until = end_of(ledger.now(self.context.clock), self.config.ttl)
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
                self._state = _OVER
                self._forget()
                raise wording.lost(name)
            self._state = _RECORDED
        ledger.leases.drop(effect_id)
        try:
            self.control.set_attribute("ledger.state", "recorded")
        except CallClosed:
            return  # the event of a nested call that succeeded is published already

    def _forget(self) -> None:
        if self._uncommitted is not None and self.claim is not None:
            forget_uncommitted(self.claim.effect_id)
