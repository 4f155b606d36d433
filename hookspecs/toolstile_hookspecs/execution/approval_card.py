"""Approval of several calls at once: the card, the answers, and the approvers that take it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest, GivenAnswer
from toolstile_hookspecs.limits import Cancellation


@dataclass(frozen=True, slots=True)
class ApprovalCard:
    """The questions of one turn or one transaction, which a person answers together.

    Args:
        rows: A request for each call, in the order of the calls.
        title: The title of the transaction; "" for a turn.
        diff: The changes of all calls together, if they have run and wait to be kept.
        withdrawn: Cancelled once the answers are not needed any more.
    """

    rows: tuple[ApprovalRequest, ...]
    title: str = ""
    diff: str | None = field(default=None, repr=False)
    withdrawn: Cancellation = field(default_factory=Cancellation, repr=False)

    def answers(self, given: Any) -> Mapping[str, Any]:
        """Return an answer for each row, by the id of its call; a row without an answer is denied.

        Args:
            given: One answer for all, or answers by ids of calls, because rows may be equal.
        """
        if isinstance(given, Mapping):
            answers = cast("Mapping[str, Any]", given)
            return {row.call.id: answers.get(row.call.id, False) for row in self.rows}
        return {row.call.id: given for row in self.rows}


CardAnswer = GivenAnswer | Mapping[str, ApprovalAnswer | bool]
"""One answer for all rows of a card, or the answers by the ids of the calls."""


@runtime_checkable
class TurnApprover(Protocol):
    """An approver that takes the questions of a turn on one card; others are asked one by one."""

    def turn(self, card: ApprovalCard) -> CardAnswer | Awaitable[CardAnswer | None] | None:
        """Answer the questions of a card."""
        ...
