"""The result of a run, its state while it waits, its error, and its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs import (
    Outcome,
    PromptEvaluationError,
    RunContext,
    Stage,
    StateError,
    Status,
    ToolInvoked,
    ToolResult,
)
from toolstile_hookspecs.agents.messages import NO_USAGE, CallMade, Message, StopReason, Usage
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.calls import APPROVAL, APPROVAL_TICKET, APPROVAL_TOKEN
from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.stored_names import stored_as

O = TypeVar("O")  # noqa: E741 - the output


class Phase(StrEnum):
    """The phase of a run in which it failed."""

    REQUEST = "request"
    """Before the request to the model: the prompt, the deadline, the number of turns."""
    RESPONSE = "response"
    """During the request, or in the reply."""
    TOOL = "tool"
    """During calls."""
    BUDGET = "budget"
    """The budget is used up."""


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits for the answer of a person.

    Args:
        call: The call.
        ticket: The approver's name for the question, else the id of the call.
        digest: SHA-256 of the token, "" if the token is unknown.
    """

    call: CallMade
    ticket: str
    digest: str = field(default="", repr=False)

    @classmethod
    def of(cls, outcome: Outcome) -> WaitingCall:
        """Return the call of an outcome that waits."""
        call = outcome.call
        text = call.arguments if isinstance(call.arguments, str) else "{}"
        ticket = outcome.event.attributes.get(APPROVAL_TICKET) or call.id
        token = outcome.approval_token
        made = CallMade(call.id, call.name, text, call.provider_id)
        return cls(made, ticket, _digest(token) if token else "")


def pending_outcome(call: CallMade, ticket: str, token: str | None, session_id: str) -> Outcome:
    """Return the pending outcome of a call that another process made."""
    result = ToolResult.error(f"{call.name} waits for a person's approval.")
    ended = result, Status.PENDING, Stage.APPROVE, session_id, None, datetime.now(UTC), 0.0
    attributes = {APPROVAL_TICKET: ticket, APPROVAL_TOKEN: token}
    event = ToolInvoked(
        call.as_call(), None, call.arguments, *ended, attributes=attributes, text=result.message
    )
    return Outcome(event)


def was_carried_out(outcome: Outcome) -> bool:
    """Return whether a resumed call ended in a process that died, and the ledger has its result."""
    is_refused = outcome.event.attributes.get(APPROVAL) == "refused"
    return is_refused and outcome.tool is not None and outcome.tool.idempotency is not None


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run that waits, as JSON; any process can resume the run.

    The state holds tickets and no tokens: a token is only for the people who may decide.

    Args:
        run_id: The id of the run.
        request_id: The id of the request.
        prompt: The namespace and key of the prompt.
        session_id: The id of the session.
        waiting: The calls that wait.
        turns: The number of replies so far.
        usage: The tokens so far.
        session: The session as JSON, None for a stored session.
    """

    run_id: str
    request_id: str
    prompt: str
    session_id: str
    waiting: tuple[WaitingCall, ...]
    turns: int = 0
    usage: Usage = NO_USAGE
    session: str | None = field(default=None, repr=False)

    def to_json(self) -> str:
        """Return the state as JSON."""
        return _STATES.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> RunState:
        """Return the state that `to_json` wrote.

        Raises:
            StateError: When the text is not such a state.
        """
        try:
            return _STATES.validate_json(text)
        except ValidationError as error:
            msg = f"This is not the state of a run: {first_fault(error)}."
            raise StateError(f"{msg} Pass the text that `to_json` returned.") from None


_STATES: TypeAdapter[RunState] = TypeAdapter(RunState)


@dataclass(frozen=True, slots=True)
class TicketAnswer:
    """The answer to a question that a call waits for.

    Args:
        token: The `approval_token` of the call's outcome.
        answer: The answer of the person.
        changes: The change set that was shown, kept without another run of the handler.

    Raises:
        TypeError: When token or answer has another type.
    """

    token: str = field(repr=False)
    answer: GivenAnswer
    changes: ChangeSet | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = cast("tuple[object, object]", (self.token, self.answer))
        if not (isinstance(given[0], str) and isinstance(given[1], GivenAnswer)):
            raise TypeError(
                "TicketAnswer: give the approval_token of the outcome, and True, False or an "
                "ApprovalAnswer."
            )


Answers = Mapping[str, TicketAnswer]
"""From ticket to answer."""


def answers_by_call(state: RunState, answers: Answers) -> dict[str, TicketAnswer | None]:
    """Return the answer to each waiting call, by its id; None for a call that keeps waiting."""
    found: dict[str, TicketAnswer | None] = {waiting.call.id: None for waiting in state.waiting}
    for ticket, answer in answers.items():
        if not isinstance(answer, TicketAnswer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"The answer to {ticket!r} has no token: give TicketAnswer(token, ...)")
        asked = [waiting for waiting in state.waiting if waiting.ticket == ticket]
        fitting = [waiting for waiting in asked if waiting.digest in {"", _digest(answer.token)}]
        if asked and not fitting:
            raise StateError(
                f"The token for {ticket!r} does not belong to its call, which keeps waiting. Give "
                "the approval_token of its outcome, then retry."
            )
        found.update({waiting.call.id: answer for waiting in fitting})
    return found


def _digest(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class RunResult(Generic[O]):
    """The result of a run.

    Args:
        stop_reason: Why it ended.
        text: The text of the last reply.
        output: The typed answer, None if the prompt has no output type.
        error: Why it failed, for a person, secrets masked.
        session_id: The id of the session.
        run_context: The ids for correlation.
        usage: The tokens of all replies, and of failed requests if the provider reports them.
        turns: The number of replies.
        messages: The conversation of the session.
        waiting: The outcomes of all calls that wait for a person, with the tokens known here.
        state: The state that resumes a waiting run.
        note: A remark for the caller, such as that the request is answered after a question.
    """

    stop_reason: StopReason
    text: str = ""
    output: O | None = None
    error: str | None = None
    session_id: str = ""
    run_context: RunContext | None = None
    usage: Usage = NO_USAGE
    turns: int = 0
    messages: tuple[Message, ...] = field(default=(), repr=False)
    waiting: tuple[Outcome, ...] = field(default=(), repr=False)
    state: RunState | None = field(default=None, repr=False)
    note: str = ""

    @property
    def tool_calls(self) -> tuple[CallMade, ...]:
        """The calls that wait for a person."""
        return () if self.state is None else tuple(each.call for each in self.state.waiting)

    @property
    def success(self) -> bool:
        """True if the model has ended, and its answer was accepted."""
        return self.stop_reason is StopReason.END


class RunFailed(PromptEvaluationError):
    """A run ended without an answer; an exception of the provider's library is the cause.

    Args:
        message: The text for a person.
        stop_reason: Why it ended.
        phase: When it ended.

    Attributes:
        prompt: The namespace and key of the prompt.
        result: The result so far.
    """

    prompt: str = ""
    result: RunResult[Any] | None = None

    def __init__(
        self, message: str, stop_reason: StopReason = StopReason.ERROR, phase: Phase = Phase.REQUEST
    ) -> None:
        super().__init__(message)
        self.stop_reason = stop_reason
        self.phase = phase


class RunCancelled(RunFailed):
    """A run was cancelled during a request to the model, or a question to its guidance."""

    def __init__(self) -> None:
        super().__init__("The run was cancelled.", StopReason.CANCELLED, Phase.RESPONSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """An event of a run, published on the session's dispatcher and on the application's bus.

    Args:
        run_id: The id of the run, new for each attempt.
        request_id: The id of the request, the same over attempts.
        attempt: The number of the attempt, from 1.
        worker_id: The machine or process that runs it.
    """

    run_id: str
    request_id: str
    attempt: int = 1
    worker_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRendered(RunEvent):
    """A prompt was rendered for a request.

    Args:
        prompt: The namespace and key of the prompt.
        digest: The SHA-256 of its text.
        tools: The names of its tools.
    """

    prompt: str
    digest: str
    tools: tuple[str, ...]


@stored_as("agent.ModelReplied")
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied(RunEvent):
    """A model has replied; kept in the session's log.

    Args:
        turn: The number of the reply in the run, from 1.
        stop_reason: Why the reply ended.
        usage: The tokens, None if the provider does not report them.
        duration: Seconds from the first try to the end of the reply.
        model: The model that answered.
    """

    turn: int
    stop_reason: StopReason
    usage: Usage | None
    duration: float
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptExecuted(RunEvent):
    """A run has ended.

    Args:
        prompt: The namespace and key of the prompt.
        stop_reason: Why it ended.
        turns: The number of replies.
        usage: The tokens of all replies.
    """

    prompt: str
    stop_reason: StopReason
    turns: int
    usage: Usage


@stored_as("agent.CompletionChecked")
@dataclass(frozen=True, slots=True)
class CompletionChecked:
    """A check of a task's completion, or the reason that it was skipped; kept in the session's log.

    Args:
        run_id: The id of the run.
        checker: The name of the checker.
        verdict: `complete`, `incomplete` or `skipped`.
        feedback: The text for the model, or the reason of the skip.
        duration: Seconds.
    """

    run_id: str
    checker: str
    verdict: str
    feedback: str | None = None
    duration: float = 0.0


@stored_as("agent.UnkeptRun")
@dataclass(frozen=True, slots=True)
class UnkeptRun:
    """A run whose calls were one transaction that was not kept; for the model's next turn.

    Args:
        reason: Why it was not kept, "" if that is unknown, because the process ended.
    """

    reason: str = ""

    @property
    def notice(self) -> str:
        """The message for the model."""
        if not self.reason:
            return (
                "The previous run was interrupted, and it is unknown whether the changes of its "
                "calls are kept. Read the present state before you continue."
            )
        return (
            f"None of the changes that the calls of the previous run made is kept: {self.reason} "
            "Everything is as it was before that run. Make the calls again if they are still "
            "wanted."
        )


@stored_as("agent.GuidanceProgress")
@dataclass(frozen=True, slots=True)
class GuidanceProgress:
    """The progress of a prompt with guidance; part of the session's state, one for each prompt."""

    prompt: str  # its namespace and key
    calls: int = 0
    succeeded: tuple[str, ...] = ()  # the tools that have succeeded
    files: tuple[str, ...] = ()  # the files of triggers that have existed
