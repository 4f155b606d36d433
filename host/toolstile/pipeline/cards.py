"""One card for the questions of a turn or of a transaction."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final

from toolstile.drivers.job import Staged, Step, WaitFor
from toolstile.drivers.limit import ENDLESS
from toolstile.pipeline.approval import (
    LATER,
    NOT_KEPT,
    UNANSWERED,
    ask_within,
    read_answer,
    refusal_of,
    use_up_now,
)
from toolstile.pipeline.batch import BatchOrder, Milestone
from toolstile.pipeline.call import SUCCEEDED, ActiveCall
from toolstile.pipeline.commit import undo
from toolstile.pipeline.failures import CallRejected
from toolstile.resources.exclusive import OneShotGate
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    Outcome,
    Status,
    ToolInvoked,
    ToolResult,
    TransactionStatus,
)
from toolstile_hookspecs.calls import APPROVAL, APPROVAL_TICKET, APPROVAL_TOKEN
from toolstile_hookspecs.execution.approval_card import ApprovalCard

_WITHDRAWN: Final = ", but the call that asked for this turn ended before the answer. Retry it."


class Card(BatchOrder):
    """The questions of a batch; a call passes it with a question, or when it has none.

    Attributes:
        calls: The calls of the batch.
        rows: The requests, by the places of their calls.
        answered: Opens when the person has answered, or cannot any more.
        work: The transaction of the calls; False if each is kept alone, None until that is known.
        stopped: Why nothing of the turn is kept, if one of its calls was interrupted.
    """

    __slots__ = ("_answers", "_fault", "_parts", "answered", "calls", "rows", "stopped", "work")

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.calls: Sequence[ActiveCall] = ()
        self.work: Any = None
        self.stopped: str | None = None
        self.rows: dict[int, ApprovalRequest] = {}
        self.answered = OneShotGate()
        self._answers: Mapping[str, ApprovalAnswer] = {}
        self._parts: list[ActiveCall] = []
        # The end of the sentence about a call that needs approval, if there are no answers.
        self._fault = ""

    def ask(self, call: ActiveCall, request: ApprovalRequest, needs: str) -> Staged:
        """Return the answer to the question of a call, asked when each call has come so far.

        The first call that has a question asks for all of them.

        Raises:
            CallRejected: The approver failed, or took too long, for all of them.
        """
        self.rows[call.index] = request
        self.passed(Milestone.ADMITTED, call.index)
        try:
            yield WaitFor(self.after_all(Milestone.ADMITTED), call.limit_without_timeout())
            if call.index == min(self.rows):
                rows = tuple(request for _, request in sorted(self.rows.items()))
                self._answers = yield from answers_to(call, ApprovalCard(rows), needs)
                self.answered.open()
            elif not self.answered.granted:
                yield WaitFor(self.answered, call.limit_without_timeout())
        except BaseException as error:
            request.withdrawn.cancel()
            if call.index == min(self.rows):
                known = isinstance(error, CallRejected)
                self._fault = str(error).removeprefix(needs) if known else _WITHDRAWN
                self.answered.open()
            raise
        if self._fault:
            call.set_attribute(APPROVAL, UNANSWERED)
            raise CallRejected(Status.DENIED, needs + self._fault)
        return self._answers[call.call_made.id]

    def take_in(self, call: ActiveCall) -> Staged:
        """Make an admitted call part of the transaction of its turn, if it has one."""
        assert call.batch is not None  # noqa: S101 - only calls of a batch have a card
        executor: Any = call.executor
        if self.work is None:
            self._parts = self._kept_together(call)
            self.work = executor.transaction("turn") if self._parts else False
            if self.work:
                root = self.work.within
                # Because calls run again without a refused row, no effect outside is on its card,
                # unless it was on the card of a transaction that is resumed.
                root.is_turn = True
                root.approves = all(each.tool.contained or each.asks for each in self._parts)
        if call in self._parts:
            # Because the decision of the turn, not that of the call, would use the token up.
            yield from use_up_now(call)
            yield from undo(call)
            call.executor, call.opened = self.work, False
            if call.resumption is not None and call.resumption.changes is not None:
                # Because its changes stand on the changes of the calls before it.
                call.passed(Milestone.FORKED)
                before = call.batch.before(Milestone.ENDED, call.index)
                yield WaitFor(before, call.limit_without_timeout())
            call.renew()

    def leave(self) -> None:
        """Forget the calls, which have all ended."""
        rest = (each for each in self.calls if each.status is SUCCEEDED and each not in self._parts)
        kept = (each for each in rest if each.plan and each.tool.category != "read")
        if (names := [f"{each.name} ({each.call_made.wire_id})" for each in kept]) and self.work:
            self.work.within.beside = f" These other calls stay: {', '.join(names)}."
        self.calls = ()

    def _kept_together(self, call: ActiveCall) -> list[ActiveCall]:
        """Return the calls that one decision keeps, because a person is asked about them.

        If a diff is shown, these are the contained calls, and all of a resumed transaction; the
        others were asked about before.
        """
        left = [each for each in self.calls if not each.ended]
        shows = any(each.asks for each in left)
        undone = [each for each in left if each.tool.undo and (each.asks or not shows)]
        parts = [each for each in left if each.tool.contained or each in undone]
        # A rule may ask about the files that a call will have changed.
        plans = [each.plan for each in parts if each.plan and each.tool.category != "read"]
        is_asked = bool(self.rows) or any(each.change_checks for each in plans)
        is_asked |= any(each.asks or each.resumption for each in parts)
        above = call.executor.within
        is_other = call.executor.dry_run or (above is not None and above.approves)
        is_other |= not shows and len(parts) < len(left)
        return parts if is_asked and len(parts) > 1 and not is_other else []


def life_in_turn(call: ActiveCall, life: Staged) -> Staged:
    """Take a call of a turn to its end, and to that of the turn's transaction, if there is one."""
    assert call.batch is not None  # noqa: S101 - only calls of a batch have a card
    card: Card = call.batch.card
    others = call.batch.after_all(Milestone.ENDED)
    outcome, raised = yield from _caught(life)
    if work := card.work:
        if raised is None or isinstance(raised, Exception):
            raised = (yield from _caught(_passing(others)))[1] or raised
        if _interrupts(raised):
            card.stopped = "It was interrupted."
        if others.granted or (card.stopped and outcome is not None):
            ending: Staged = work.end(card.stopped, on_loop=call.on_loop)
            error = yield from ending
            if not work.decided.granted:
                yield WaitFor(work.decided, ENDLESS)
            raised = error if _interrupts(error) else raised
    if others.granted:
        card.leave()
    if raised is not None:
        raise raised
    return _as_kept(outcome, work) if work and call.executor is work else outcome


def _caught(steps: Staged) -> Generator[Step, Any, tuple[Any, BaseException | None]]:
    """Return the value of the steps, and the exception that they have raised, if any."""
    try:
        return (yield from steps), None
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - raised when the turn has ended
        return None, error


def _passing(gate: OneShotGate) -> Staged:
    yield WaitFor(gate, ENDLESS)


def _interrupts(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, Exception)


def _as_kept(outcome: Any, work: Any) -> Outcome:
    """Return the outcome of a call whose turn has ended; an error if the call is not kept."""
    root, ended = work.within, work.ended
    outcome = root.retold.get(outcome.call.id, outcome)
    event: ToolInvoked = copy(outcome.event)
    error: BaseException | None = root.told[2]
    more: dict[str, Any] = {}
    waiting: tuple[ApprovalRequest, ApprovalAnswer] | None = root.waiting.get(outcome.call.id)
    if isinstance(refused := root.refused.get(outcome.call.id), CallRejected):
        status, text = refused.status, str(refused)
    elif refused is not None:
        status, text = Status.DENIED, refusal_of(event.tool_name, refused)
    elif waiting is not None:
        (row, answer), status = waiting, Status.PENDING
        noted = {APPROVAL: status.value, APPROVAL_TOKEN: answer.token or row.token()}
        if answer.ticket is not None:
            noted[APPROVAL_TICKET] = answer.ticket
        # As shown, because the arguments may be read as others the next time.
        more["call"] = replace(row.call, arguments=row.arguments)
        more["attributes"] = {**event.attributes, **noted}
        text = f"{row.tool.label} waits for a person's approval.{NOT_KEPT} {answer.reason or LATER}"
    elif not outcome.success or ended.status is TransactionStatus.COMMITTED:
        return outcome  # type: ignore[no-any-return]
    else:
        status = Status.CANCELLED if error is None else root.status
        if status is Status.DEADLINE:
            raise root.raises
        text = ended.reason
        if root.name not in text:
            text = f"{root.name} was not kept: {text}"
        text += root.beside
    result: ToolResult[Any] = ToolResult.error(event.hide(text))
    more |= {"text": result.message, "data": None, "error": error, "rolled_back": True}
    told: dict[str, Any] = vars(event)
    told.update(status=status, stage=root.stage, result=result, **more)
    return Outcome(event, result)


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
