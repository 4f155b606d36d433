"""Resumption of answered calls, in the process that asked or in another process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import uuid4

from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    ExecutorHandle,
    Outcome,
    Principal,
    Prompt,
    StateError,
    Status,
    ToolCall,
)
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, unanswered
from toolstile_hookspecs.calls import APPROVAL
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.execution.options import LaterAnswer
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.services.approval_store import ANSWERED, OPEN, Question, QuestionState
from toolstile_plugins.agent.result import RunState, TicketAnswer, WaitingCall, was_carried_out
from toolstile_plugins.inbox.inbox import Inbox, by_turn, told_later
from toolstile_plugins.inbox.seal import SealedCall

log = logging.getLogger("toolstile.inbox")


def resume_pending(tools: ExecutorHandle, principal: Principal | None = None) -> list[Outcome]:
    """Resume the calls of an executor's session whose questions were answered or expired.

    The calls of a turn are resumed together, and with one diff only once all are answered. Calls
    of an agent's run are left to the run, and calls of a child to the child, which may do
    less: give it, or another child of its name, as `tools`. All policies are asked again. An
    approved change set is applied without calling the handler again, unless its base has changed.
    The call of an altered question is not resumed, and the fault is logged.

    Args:
        tools: The executor.
        principal: Its principal; calls of other principals are not resumed.

    Returns:
        The outcomes, in the order of the questions.

    Raises:
        StateError: The store cannot be used.
    """
    inbox = tools.resources.get(Inbox)
    outcomes: list[Outcome] = []
    for together in _due(inbox, tools, principal):
        with _ending(inbox, together, outcomes):
            calls = _calls(together)
            for each in tools.dispatch_all(calls, resumed=_answers(together, calls)):
                ended = _outcome(each)
                outcomes.append(tools.dispatch(ended.call) if was_carried_out(ended) else ended)
    return outcomes


async def aresume_pending(
    tools: ExecutorHandle, principal: Principal | None = None
) -> list[Outcome]:
    """Resume the answered calls of an executor's session; see `resume_pending`."""
    inbox = tools.resources.get(Inbox)
    outcomes: list[Outcome] = []
    for together in _due(inbox, tools, principal):
        outcomes += await _aresumed(inbox, tools, together, _calls(together))
    return outcomes


async def _aresumed(
    inbox: Inbox, tools: ExecutorHandle, together: Sequence[Due], calls: Sequence[ToolCall]
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with _ending(inbox, together, outcomes):
        for each in await tools.adispatch_all(calls, resumed=_answers(together, calls)):
            ended = _outcome(each)
            outcomes.append(await tools.adispatch(ended.call) if was_carried_out(ended) else ended)
    return outcomes


def waiting_run(tools: ExecutorHandle, prompt: Prompt) -> RunState | None:
    """Return the state of the run that waits in a stored session; None without such a run.

    The conversation has the calls of the run, and the inbox has its questions. So an application
    stores nothing else between two requests, and any process can continue the run. The usage of
    the run so far is unknown.

    Args:
        tools: An executor of the session for the principal of the run.
        prompt: The prompt of the run.

    Returns:
        The state, for `answers_to` and an agent's `resume`.

    Raises:
        StateError: The store cannot be used.
    """
    messages, own = tools.session[Message].all(), _principal_of(tools)
    asked = asked_about(tools, open_calls := unanswered(messages))
    calls = [call for call in open_calls if call.id in asked and asked[call.id].principal == own]
    if not calls:
        return None
    requests = [each for each in messages if each.request_id is not None]
    since = messages.index(requests[-1]) if requests else 0
    return RunState(
        run_id=asked[calls[-1].id].owner,
        request_id=(requests[-1].request_id if requests else None) or "",
        prompt=f"{prompt.ns}:{prompt.key}",
        session_id=tools.session.id,
        waiting=tuple(WaitingCall(call, asked[call.id].ticket) for call in calls),
        turns=sum(each.role is Role.ASSISTANT for each in messages[since:]),
    )


def answers_to(inbox: Inbox, state: RunState) -> dict[str, TicketAnswer]:
    """Return the answers so far by ticket, for an agent that resumes a waiting run.

    Calls without an answer, or with an altered question, keep waiting.

    Raises:
        StateError: The store cannot be used.
    """
    found = (inbox.store.get(waiting.ticket) for waiting in state.waiting)
    return answers_among(inbox, filter(None, found))


def answers_among(inbox: Inbox, questions: Iterable[Question]) -> dict[str, TicketAnswer]:
    """Return the answers so far to questions of runs, by ticket; see `answers_to`."""
    return {
        due.question.ticket: TicketAnswer(due.sealed.token, due.answer, due.changes)
        for together in _claimed_by_turn(inbox, questions, ended=True)
        for due in together
    }


def asked_about(tools: ExecutorHandle, calls: Iterable[CallMade]) -> dict[str, Question]:
    """Return the newest question about each open call of a run, by the id of the call.

    Calls that are made again have none: calls that wait for an answer, or whose key is lost.
    """
    inbox, ids = tools.resources.get(Inbox), {call.id for call in calls}
    questions = inbox.store.questions([*QuestionState], session_id=_session_id_of(tools))
    own = [each for each in questions if each.owner and each.agent == _agent_of(tools)]
    asked = {each.call_id: each for each in own if each.call_id in ids}
    again = {QuestionState.WAITING} if inbox.settings.wait == "answer" else set[QuestionState]()
    return {
        call_id: each
        for call_id, each in asked.items()
        if each.state not in again and inbox.lost(each) is None
    }


@dataclass(frozen=True, slots=True)
class Due:
    """A claimed call to resume; `end` is the state of its question after the call."""

    question: Question
    sealed: SealedCall
    answer: ApprovalAnswer
    end: QuestionState
    holder: str

    @property
    def changes(self) -> ChangeSet | None:
        """The change set that the person saw, if their answer applies to it."""
        if self.sealed.changes is None:
            return None
        changes = ChangeSet.from_json(self.sealed.changes)
        return None if self.answer.answer is Answer.EDITED and not changes.is_read else changes


def _calls(together: Sequence[Due]) -> list[ToolCall]:
    return [due.sealed.call for due in together]


def _answers(together: Sequence[Due], calls: Sequence[ToolCall]) -> dict[str, LaterAnswer]:
    return {
        call.id: (due.sealed.token, due.answer, due.changes)
        for due, call in zip(together, calls, strict=True)
    }


def _outcome(ended: Outcome | BaseException) -> Outcome:
    if isinstance(ended, BaseException):
        raise ended
    return ended


@contextmanager
def _ending(inbox: Inbox, together: Sequence[Due], outcomes: list[Outcome]) -> Generator[None]:
    """Close the questions of a turn after the block, which adds an outcome for each.

    The claims are released if the block is interrupted, this host lacks the tool, or it is stopped.
    """
    try:
        yield
    except BaseException:
        _release(inbox, together)
        raise
    for due, outcome in zip(together, outcomes[-len(together) :], strict=True):
        is_kept = outcome.event.attributes.get(APPROVAL) == "kept"
        if is_kept or outcome.status is Status.UNKNOWN_TOOL:
            _release(inbox, [due])
        else:
            inbox.store.end(due.question.ticket, due.end)


def _release(inbox: Inbox, together: Sequence[Due]) -> None:
    for due in together:
        inbox.store.release(due.question.ticket, due.holder)


def _due(inbox: Inbox, tools: ExecutorHandle, principal: Principal | None) -> Iterator[list[Due]]:
    """Yield the calls to resume outside of runs, by turn, each claimed."""
    # Because resuming uses up the answer, only the principal of a call resumes it.
    own = _principal_of(tools)
    if principal not in {None, own}:
        return
    inbox.events.to_session(tools.session)
    inbox.events.to_record()
    questions = inbox.store.questions(session_id=_session_id_of(tools))
    whose = [each for each in questions if each.agent == _agent_of(tools)]
    mine = [each for each in whose if not each.owner and each.principal == own]
    yield from _claimed_by_turn(inbox, mine)


def _claimed_by_turn(
    inbox: Inbox, questions: Iterable[Question], *, ended: bool = False
) -> Iterator[list[Due]]:
    for rows in by_turn(questions).values():
        together = list(claimed(inbox, rows, ended=ended))
        if rows[0].turn and rows[0].diff is not None and len(together) < len(rows):
            # Because a person has seen the changes of all, a transaction waits for all answers.
            _release(inbox, together)
        elif together:
            yield together


def _principal_of(tools: ExecutorHandle) -> Principal | None:
    return getattr(tools, "principal", None)


def _agent_of(tools: ExecutorHandle) -> str:
    return getattr(tools, "agent", MAIN_AGENT)


def _session_id_of(tools: ExecutorHandle) -> str:
    """Return the id of the session that questions name: that of the first parent."""
    return getattr(tools, "session_id", tools.session.id)


def claimed(inbox: Inbox, questions: Iterable[Question], *, ended: bool = False) -> Iterator[Due]:
    """Yield the calls whose questions were answered or expired, each claimed.

    An altered question is skipped. `ended` includes closed questions, for runs: their process may
    have died before the conversation had the result.
    """
    for question in questions:
        now, holder = inbox.clock.now(), uuid4().hex
        state = question.state_at(now)
        if state is QuestionState.WAITING:
            continue
        try:
            sealed, answer = inbox.seal.call_of(question), inbox.answer_to(question)
        except StateError as error:
            log.error("%s Its call is left.", error)  # noqa: TRY400 - a traceback adds nothing
            continue
        if not sealed.token:
            continue  # a row of a transaction, which only the transaction itself takes
        if (ended and question.state not in OPEN) or inbox.claim(question, holder=holder):
            end = QuestionState.RESUMED if state in ANSWERED else state
            yield Due(question, sealed, answer, end, holder)


@dataclass(frozen=True, slots=True)
class LateAnswer:
    """An answer to a question about an ended call, with the proof of `Seal.seal_proof`."""

    proof: str = field(repr=False)
    given: ApprovalAnswer
    via: str
    principal: Principal | None
    by: Principal

    async def settle(self, tools: ExecutorHandle, call: ToolCall) -> Outcome | str | None:
        """Store the answer, and resume the call with the first answer and the arguments shown.

        Returns:
            The outcome; the reason why the call is not resumed; or None if the proof is invalid.
        """
        inbox: Inbox | None = tools.resources.get(Inbox, None)
        if inbox is None:
            return None
        due = await asyncio.to_thread(partial(self._keep, inbox, tools.session.id))
        if not isinstance(due, Due):
            return due
        call = replace(call, name=due.sealed.name, arguments=due.sealed.arguments)
        return (await _aresumed(inbox, tools, [due], [call]))[0]

    def _keep(self, inbox: Inbox, session_id: str) -> Due | str | None:
        try:
            ticket, digest = inbox.seal.proven(self.proof)
        except StateError:
            return None
        question = inbox.store.get(ticket)
        whose = (session_id, self.principal)
        if question is None or (question.session_id, question.principal) != whose:
            return None
        told = f"{question.tool} waits for a person's approval. {told_later(question)}"
        if self.given.answered:
            answer, reason = self.given.answer, self.given.reason
            try:
                question = inbox.answer(
                    ticket, answer, self.by, via=self.via, digest=digest, reason=reason
                )
            except StateError as error:
                told = str(error)
                question = inbox.store.get(ticket)
        return next(claimed(inbox, [question] if question else []), told)
