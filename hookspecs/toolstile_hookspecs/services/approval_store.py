"""Stores of questions to a person, their answers, grants and events.

`toolstile_hookspecs.testing.ApprovalStoreContract` tests a store.
"""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import AfterValidator, PlainSerializer

from toolstile_hookspecs.approval import PERSON_ONLY, Answer
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.execution.principal import MAIN_AGENT, Principal

Moment = Annotated[
    datetime,
    AfterValidator(lambda moment: moment.astimezone(UTC)),
    PlainSerializer(lambda moment: moment.astimezone(UTC).isoformat(), when_used="json"),
]
"""An aware time, in JSON as ISO 8601 in UTC."""


class QuestionState(StrEnum):
    """The state of a question."""

    WAITING = "waiting"
    """There is no answer yet."""
    APPROVED = "approved"
    DENIED = "denied"
    EDITED = "edited"
    EXPIRED = "expired"
    """There was no answer in time."""
    RESUMED = "resumed"
    """The call has ended after the answer."""
    WITHDRAWN = "withdrawn"
    """The call was abandoned before an answer."""


class QuestionClosedError(StateError):
    """A question takes no answer: it has one, its time is over, or it was withdrawn.

    A web service answers with status 409.
    """


class UnknownQuestionError(StateError):
    """No question has the ticket. A web service answers with status 404."""


ANSWERED = frozenset({QuestionState.APPROVED, QuestionState.DENIED, QuestionState.EDITED})
"""The states of a question whose answer waits for its call."""
OPEN = ANSWERED | {QuestionState.WAITING}
"""The states of a question whose call has not ended."""


@dataclass(frozen=True, slots=True)
class AnswerRecord:
    """The stored answer of a person to a question.

    Args:
        answer: Approved, denied or edited.
        by: The person.
        via: The channel, such as `command line`.
        at: The time; aware.
        reason: The reason of a denial, for the model.
        sealed: The proof of the answer and the edited arguments, made and read with the key.
    """

    answer: Answer
    by: Principal
    via: str
    at: Moment
    reason: str | None = None
    sealed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a person about one call.

    Args:
        ticket: Its name, of letters and digits.
        call_id: The id of the call.
        tool: The name of the tool.
        category: The category of the tool.
        consequence: The consequence of the tool.
        reasons: The reasons of the policies that ask.
        arguments: The arguments as JSON, secrets masked.
        digest: The digest of tool, arguments and diff, which an answer is bound to.
        session_id: The id of the session.
        principal: The principal for whom the call runs.
        created: The time of the question; aware.
        expires: The time from which no answer counts; aware.
        sealed: The call, its token and its change set, readable with the key.
        owner: The run of an agent that resumes the call, by its id; "" for the call alone.
        diff: The changes of a call that has run and waits to be kept, secrets masked.
        shown_before: The diff that a person approved, where the base of the call has moved since.
        state: Its state.
        answer: The answer, once there is one.
        asked_by: The names of the policies that ask, and the reasons that are of none.
        definition: The digest of the tool's definition.
        agent: The path of the agent that made the call.
        turn: The id of the card on which it is a row, with others of one turn or transaction.
    """

    ticket: str
    call_id: str
    tool: str
    category: str
    consequence: str
    reasons: tuple[str, ...]
    arguments: str
    digest: str
    session_id: str
    principal: Principal | None
    created: Moment
    expires: Moment
    sealed: bytes = field(repr=False)
    owner: str = ""
    diff: str | None = None
    shown_before: str | None = None
    state: QuestionState = QuestionState.WAITING
    answer: AnswerRecord | None = None
    asked_by: tuple[str, ...] = ()
    definition: str = ""
    agent: str = MAIN_AGENT
    turn: str = ""

    @property
    def by_person(self) -> bool:
        """True if only a person's answer counts, and no grant."""
        return PERSON_ONLY in self.asked_by

    def state_at(self, now: datetime) -> QuestionState:
        """Return its state, which is expired without an answer in time."""
        answered = now if self.answer is None else self.answer.at
        is_late = self.state in OPEN and answered >= self.expires
        return QuestionState.EXPIRED if is_late else self.state


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """A stored approval that lasts.

    Args:
        id: Its name, of letters and digits.
        expires: The time from which it does not hold; aware.
        sealed: The whole grant, made and read with the key.
    """

    id: str
    expires: datetime
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """A stored event of a question or a grant, for listeners.

    Args:
        session_id: The session of the event.
        at: The time from which listeners receive the event; aware.
        sealed: The whole event, made and read with the key.
    """

    session_id: str
    at: datetime
    sealed: bytes = field(repr=False)


Listener = Literal["record", "session"]
"""The listeners of events: the record of a host, and the session of an event."""


@runtime_checkable
class ApprovalStore(Protocol):
    """Keeps questions, shared by askers and answerers.

    A method that changes something takes the sealed event of the change; the store keeps both or
    none. Every method raises `StateError` with a remedy if the store cannot be read or written.

    Attributes:
        waits: Whether a method may wait; the host then calls it on a thread.
    """

    waits: bool

    def add(self, question: Question, expiry: EventRecord | None = None) -> None:
        """Keep a question, and the event of its expiry, which counts unless it ends before.

        A question with a known ticket changes nothing, so that two processes ask once.
        """

    def get(self, ticket: str) -> Question | None:
        """Return a question in its present state, or None."""

    def questions(
        self, states: Collection[QuestionState] = OPEN, *, session_id: str | None = None
    ) -> Sequence[Question]:
        """Return the questions in some states, of a session or all, the oldest first."""

    def answer(
        self, ticket: str, given: AnswerRecord, event: EventRecord | None = None
    ) -> Question | None:
        """Answer a waiting question; return its new state, or None for an unknown ticket.

        The first answer counts: a question that does not wait any more, or expired before the
        answer's time, stays unchanged, and the event is dropped.
        """

    def claim(self, ticket: str, holder: str, now: datetime, until: datetime) -> bool:
        """Let one holder at a time end the call of an open question, until a time.

        Args:
            ticket: The question.
            holder: The name of the holder, who may claim again.
            now: The time; earlier claims have ended.
            until: The end of the claim.
        """

    def release(self, ticket: str, holder: str) -> None:
        """Give a claim back."""

    def end(self, ticket: str, state: QuestionState, event: EventRecord | None = None) -> None:
        """Make an open question expired, resumed or withdrawn, because its call has ended."""

    def grant(self, record: GrantRecord, event: EventRecord | None = None) -> None:
        """Keep a grant."""

    def grants(self) -> Sequence[GrantRecord]:
        """Return the grants, the oldest first."""

    def revoke(
        self,
        id: str,  # noqa: A002 - it is the id
        event: EventRecord | None = None,
    ) -> None:
        """Remove a grant, if it is there."""

    def tell(
        self,
        listener: Listener,
        now: datetime,
        hear: Callable[[EventRecord], object],
        *,
        session_id: str | None = None,
    ) -> None:
        """Call `hear` with each new event for a listener, the oldest first.

        One process gets an event, once; the next event follows when `hear` has returned. If that
        raises, or the process dies, the event comes again.

        Args:
            listener: The listener.
            now: The time; later expiries do not come yet.
            hear: Takes an event.
            session_id: The session; None for all.
        """

    def events(self, now: datetime, most: int) -> Sequence[EventRecord]:
        """Return the newest events, received or not, the newest first."""

    def prune(self, before: datetime) -> int:
        """Remove questions and grants that expired before a time; return their number."""

    def close(self) -> None:
        """Release connections and files; the next use opens the store again."""


@runtime_checkable
class OffersApprovalKey(Protocol):
    """A resource with a secret that outlives the host, such as an inbox's key.

    A host with stored sessions and without `approval_key` seals the tokens of pending calls with
    it, so that a restart keeps approvals. It notes used tokens in the store of decisions.
    """

    def approval_key(self) -> bytes:
        """Return 32 secret bytes or more, the same each time."""


@runtime_checkable
class TakesTokens(Protocol):
    """A `HostHandle` that resumes pending calls, as every host of Toolstile does."""

    def takes(self, token: str) -> bool:
        """Return False if the token of a pending call was sealed with a key that is gone."""


@runtime_checkable
class OffersApprovals(Protocol):
    """A `SessionStore` with the store of questions of its database."""

    def approvals(self) -> ApprovalStore:
        """Return the store, the same object each time."""
