"""Effects outside that later calls take back.

The claim of a call of a tool with `undo` owes an undo from before the handler begins until the
effect is recorded. A process that undoes an effect takes the claim over under a new id, so that
the call cannot record it any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from toolstile_hookspecs import ConflictError, ToolContext
from toolstile_hookspecs.execution.undo import Difference
from toolstile_hookspecs.services.ledger import Claim, EffectState
from toolstile_hookspecs.services.session_store import Decision
from toolstile_plugins.ledger.api import EffectLedger, HandlerEnd, is_unsettled
from toolstile_plugins.ledger.stores.memory import PAST

UNDONE: Final = "It was undone."


class Refunds:
    """The effects that a call takes back: the resource, and the branch of it that a call gets.

    The call's decision owes the undos, which follow when the call has ended. Of a contained effect,
    which is gone with the changes of its call, only the record goes.
    """

    name = "effects outside"

    def __init__(
        self,
        ledger: EffectLedger,
        refund: Callable[[str], None],
        parent: Refunds | None = None,
        end: HandlerEnd | None = None,
    ) -> None:
        self.resource, self._parent, self._end = self, parent, end
        self._ledger, self._refund = ledger, refund
        self.owed: dict[str, Claim] = {}

    def branch(self, context: ToolContext, parent: Refunds | None) -> Refunds:
        """Return the branch of a call."""
        return Refunds(self._ledger, self._refund, parent, context.resources.get(HandlerEnd))

    @property
    def contributes(self) -> bool:
        """True if the decision of the call has something to record."""
        return bool(self.owed)

    @property
    def changed(self) -> bool:
        """True if an undo of this call could not bring the effects back."""
        return bool(self.diff())

    def undoes(self, key: str) -> bool:
        """Return whether the call, or one around it, takes the effect of a key back."""
        return key in self.owed or (self._parent is not None and self._parent.undoes(key))

    def undo(self, text: str) -> tuple[list[str], list[Difference]]:
        """Take an effect back; see `Reversible`."""
        noted: dict[str, Any] = json.loads(text)
        made, key, effect_id = noted["made"], noted["key"], noted["effect"]
        entry = self._ledger.store.get(key)
        if entry is None or effect_id not in {entry.claim.owed_id, entry.claim.effect_id}:
            return [], [Difference(name, "done", "the ledger has forgotten it") for name in made]
        if entry.state is not EffectState.DONE:
            # It is undone already, or is about to be.
            return [], []
        self.owed[key] = entry.claim._replace(params=noted["params"].encode() or None)
        return [f"{name} (once its undo has succeeded)" for name in made], []

    def owes(self, text: str) -> bool:
        """Return whether an effect is still to be undone."""
        entry = self._ledger.store.get(json.loads(text)["key"])
        return entry is not None and bool(entry.claim.owed_id) and is_unsettled(entry)

    def diff(self) -> str:
        """Return the effects, one a line."""
        owed = (each for each in self.owed.values() if each.owed_id)
        return "\n".join(f"- the effect of {each.tool_name}" for each in owed)

    def prepare(self) -> None:
        """Do nothing, because the decision does the rest."""

    rollback = prepare

    def contribute(self, decision: Decision) -> None:
        """Owe the undos, as a part of the call's decision."""
        store: Any = self._ledger.store
        connection = None if self._ledger.joining is None else decision.connection
        for claim in self.owed.values():
            reason = "A later call undid it." if claim.owed_id else UNDONE
            if not store.owe(claim, reason, EffectState.DONE, connection):
                told = f"Another call has undone the effect of {claim.tool_name}."
                raise ConflictError(f"{told} Retry this call.")

    def commit(self) -> None:
        """Undo the effects when the call has ended, or hand them to the call around it."""
        if self._parent is not None:
            self._parent.owed |= self.owed
        elif self._end is not None:
            for key, claim in self.owed.items():
                if claim.owed_id:
                    self._end.then(partial(self._refund, key))
                else:
                    end = self._ledger.store.mark_unknown
                    self._ledger.keeper.settle_later(
                        partial(end, key, claim.effect_id, UNDONE, PAST)
                    )
