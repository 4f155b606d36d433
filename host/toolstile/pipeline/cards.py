"""One card for the questions of a turn or of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from toolstile.drivers.job import Staged, WaitFor
from toolstile.pipeline.approval import ask_within, read_answer
from toolstile.pipeline.batch import BatchOrder, Milestone
from toolstile.pipeline.call import ActiveCall
from toolstile.resources.exclusive import OneShotGate
from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest
from toolstile_hookspecs.execution.approval_card import ApprovalCard

_LEFT_OPEN: Final = ApprovalAnswer.unanswered("The questions of this turn were not answered.")


class Card(BatchOrder):
    """The questions of a batch; a call passes it with a question, or when it has none.

    Attributes:
        rows: The requests, by the places of their calls.
        answered: Opens when the person has answered, or cannot any more.
    """

    __slots__ = ("_answers", "answered", "rows")

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.rows: dict[int, ApprovalRequest] = {}
        self.answered = OneShotGate()
        self._answers: Mapping[str, ApprovalAnswer] = {}

    def ask(self, call: ActiveCall, request: ApprovalRequest, needs: str) -> Staged:
        """Return the answer to the question of a call, asked when each call has come so far.

        The first call that has a question asks for all of them.

        Raises:
            CallRejected: The approver failed, or took too long.
        """
        self.rows[call.index] = request
        self.passed(Milestone.ADMITTED, call.index)
        yield WaitFor(self.after_all(Milestone.ADMITTED), call.limit_without_timeout())
        if call.index == min(self.rows):
            rows = tuple(request for _, request in sorted(self.rows.items()))
            try:
                self._answers = yield from answers_to(call, ApprovalCard(rows), needs)
            finally:
                self.answered.open()
        elif not self.answered.granted:
            try:
                yield WaitFor(self.answered, call.limit_without_timeout())
            except BaseException:
                request.withdrawn.cancel()
                raise
        return self._answers.get(call.call_made.id, _LEFT_OPEN)


def answers_to(call: ActiveCall, card: ApprovalCard, needs: str) -> Staged:
    """Return the answers to a card, by the ids of the calls.

    Raises:
        CallRejected: The approver failed, or took too long.
    """
    approver: Any = call.executor.approver

    def read(given: Any) -> dict[str, ApprovalAnswer]:
        return {id_: read_answer(answer) for id_, answer in card.answers(given).items()}

    if len(card.rows) == 1 and card.diff is None:
        return (yield from ask_within(call, approver, card.rows[0], needs, read))
    return (yield from ask_within(call, approver.turn, card, needs, read))
