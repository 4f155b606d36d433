"""Resumption of calls that were answered, in the process that asked or in another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolstile_hookspecs import Answer, ApprovalAnswer, ExecutorHandle, Outcome, Principal
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.services.approval_store import ANSWERED, Question, QuestionState
from toolstile_plugins.inbox.inbox import Inbox
from toolstile_plugins.inbox.seal import SealedCall


def resume_pending(tools: ExecutorHandle, principal: Principal | None = None) -> list[Outcome]:
    """Resume the calls of an executor's session that were answered, or not in time.

    The calls of an agent's run are left to the run. All policies are asked anew. An approved
    change set is kept without another run of the handler, unless its base has changed.

    Args:
        tools: The executor.
        principal: Its principal; the calls of others are left.

    Returns:
        The outcomes, in the order of the questions.

    Raises:
        StateError: The store cannot be used, or a question was altered.
    """
    inbox = tools.resources.get(Inbox)
    outcomes: list[Outcome] = []
    for due in _due(inbox, tools.session.id, principal):
        sealed = due.sealed
        outcome = tools.resume(sealed.call, sealed.token, due.answer, changes=due.changes)
        inbox.store.end(due.question.ticket, due.end)
        outcomes.append(outcome)
    return outcomes


async def aresume_pending(
    tools: ExecutorHandle, principal: Principal | None = None
) -> list[Outcome]:
    """Resume the calls of an executor's session that were answered; see `resume_pending`."""
    inbox = tools.resources.get(Inbox)
    outcomes: list[Outcome] = []
    for due in _due(inbox, tools.session.id, principal):
        sealed = due.sealed
        outcome = await tools.aresume(sealed.call, sealed.token, due.answer, changes=due.changes)
        inbox.store.end(due.question.ticket, due.end)
        outcomes.append(outcome)
    return outcomes


@dataclass(frozen=True, slots=True)
class Due:
    """A call that is to be resumed.

    Args:
        question: The question.
        sealed: The call, and all that it takes to resume it.
        answer: The answer.
        end: The state of the question once the call has ended.
    """

    question: Question
    sealed: SealedCall
    answer: ApprovalAnswer
    end: QuestionState

    @property
    def changes(self) -> ChangeSet | None:
        """The change set that was approved."""
        if self.sealed.changes is None or self.answer.answer is not Answer.APPROVED:
            return None
        return ChangeSet.from_json(self.sealed.changes)


def _due(inbox: Inbox, session_id: str, principal: Principal | None) -> Iterator[Due]:
    """Yield what is to be resumed, each claimed."""
    for question in inbox.store.questions(session_id=session_id):
        now = inbox.clock.now()
        state = question.state_at(now)
        if question.owner or question.principal != principal:
            continue
        if state not in ANSWERED and state is not QuestionState.EXPIRED:
            continue
        if inbox.claim(question, now):
            end = QuestionState.RESUMED if state in ANSWERED else state
            yield Due(question, inbox.seal.call_of(question), inbox.answer_to(question), end)
