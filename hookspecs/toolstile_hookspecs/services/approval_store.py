"""Stores of questions to a person: what waits for an answer, and who gave which.

`toolstile_hookspecs.testing.ApprovalStoreContract` shows whether a store keeps to this.
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
from toolstile_hookspecs.execution.principal import Principal

Moment = Annotated[
    datetime,
    AfterValidator(lambda moment: moment.astimezone(UTC)),
    PlainSerializer(lambda moment: moment.astimezone(UTC).isoformat(), when_used="json"),
]
"""An aware time, in JSON as ISO 8601 in UTC."""


class QuestionState(StrEnum):
    """The state of a question."""

    WAITING = "waiting"
    """Nobody has answered."""
    APPROVED = "approved"
    DENIED = "denied"
    EDITED = "edited"
    EXPIRED = "expired"
    """No one answered in time."""
    RESUMED = "resumed"
    """The call has ended with the answer."""
    WITHDRAWN = "withdrawn"
    """The call was given up before an answer."""


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
    """The answer of a person to a question, as it is kept.

    Args:
        answer: Approved, denied or edited.
        by: The person.
        via: The way on which it came, such as `command line`.
        at: The time; aware.
        reason: The reason of a denial, for the model.
        sealed: The proof of the answer and the edited arguments, which only a holder of the key
            can make and read.
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
        digest: The digest of tool, arguments and diff, to which an answer is bound.
        session_id: The id of the session.
        principal: The principal for whom the call runs.
        created: The time of the question; aware.
        expires: The time from which on nobody can answer; aware.
        sealed: The call, its token and its change set, which only a holder of the key can read.
        owner: The run of an agent that resumes the call, by its id; "" for the call alone.
        diff: The changes of a call that has run and waits to be kept, secrets masked.
        shown_before: The diff that a person approved, where the base of the call has moved since.
        state: Its state.
        answer: The answer, once there is one.
        asked_by: The names of the policies that ask, and the reasons that are of none.
        definition: The digest of the tool's definition.
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

    @property
    def by_person(self) -> bool:
        """True if only a person's answer counts, and no grant."""
        return PERSON_ONLY in self.asked_by

    def state_at(self, now: datetime) -> QuestionState:
        """Return its state, which is expired where nobody answered in time."""
        answered = now if self.answer is None else self.answer.at
        is_late = self.state in OPEN and answered >= self.expires
        return QuestionState.EXPIRED if is_late else self.state


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """An approval that lasts, as it is kept.

    Args:
        id: Its name, of letters and digits.
        expires: The time from which on it does not hold; aware.
        sealed: All of it, which only a holder of the key can make and read.
    """

    id: str
    expires: datetime
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event of a question or a grant, as it is kept until it is told.

    Args:
        session_id: The session that it concerns.
        at: The time; aware. Before it, the event is not told.
        sealed: All of it, which only a holder of the key can make and read.
    """

    session_id: str
    at: datetime
    sealed: bytes = field(repr=False)


Listener = Literal["record", "session"]
"""Those who hear events: the record of a host, and the session that one concerns."""


@runtime_checkable
class ApprovalStore(Protocol):
    """Keeps questions, shared by those who ask and those who answer.

    What changes something takes the event that tells of it, sealed; the store keeps both or none.

    Every method raises `StateError`, which says what to do, when the store cannot be read or
    written.

    Attributes:
        waits: Whether a method may wait, so that it is kept off event loops.
    """

    waits: bool

    def add(self, question: Question, expiry: EventRecord | None = None) -> None:
        """Keep a question, and the event of its expiry, which is told unless it ends before.

        A question with the ticket of one that is kept changes nothing: two processes ask once.
        """

    def get(self, ticket: str) -> Question | None:
        """Return a question as it is now, or None."""

    def questions(
        self, states: Collection[QuestionState] = OPEN, *, session_id: str | None = None
    ) -> Sequence[Question]:
        """Return the questions that are kept in some states, the oldest first.

        Args:
            states: The states.
            session_id: The session; None for all.
        """

    def answer(
        self, ticket: str, given: AnswerRecord, event: EventRecord | None = None
    ) -> Question | None:
        """Answer a question that waits; return it as it is then.

        The first answer counts: a question that does not wait any more, or expired before the
        answer's time, stays as it is, and its event is dropped. None where there is no such
        question.
        """

    def claim(self, ticket: str, holder: str, now: datetime, until: datetime) -> bool:
        """Let a holder end the call of an open question until a time; one at a time can.

        Args:
            ticket: The question.
            holder: The name of the holder, who may claim again.
            now: The time; a claim that ended before it does not count any more.
            until: The end of the claim.
        """

    def release(self, ticket: str, holder: str) -> None:
        """Give a claim back."""

    def end(self, ticket: str, state: QuestionState, event: EventRecord | None = None) -> None:
        """Put an open question into expired, resumed or withdrawn: its call has ended."""

    def grant(self, record: GrantRecord, event: EventRecord | None = None) -> None:
        """Keep a grant."""

    def grants(self) -> Sequence[GrantRecord]:
        """Return the grants that are kept, the oldest first."""

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
        """Tell a listener the events of which it has not heard, the oldest first.

        Each is told once, to one process: the next follows when `hear` has returned. An event is
        told again where that raises, or where the process dies in it.

        Args:
            listener: The listener.
            now: The time; what expires later is not told yet.
            hear: Takes an event.
            session_id: The session; None for all.
        """

    def events(self, now: datetime, most: int) -> Sequence[EventRecord]:
        """Return the newest events that are kept, the newest first, told or not."""

    def prune(self, before: datetime) -> int:
        """Remove questions and grants that expired before a time; return their number."""

    def close(self) -> None:
        """Give back what it holds; the next use opens it again."""


@runtime_checkable
class OffersApprovalKey(Protocol):
    """A resource with a secret that outlives the host, such as the key of an inbox.

    A host with stored sessions and without `approval_key` seals the tokens of pending calls with
    it, so that a restart keeps approvals. It notes used tokens where it decides calls.
    """

    def approval_key(self) -> bytes:
        """Return 32 secret bytes or more, always the same ones."""


@runtime_checkable
class TakesTokens(Protocol):
    """A `HostHandle` that resumes pending calls, as every host of Toolstile does."""

    def takes(self, token: str) -> bool:
        """Return False if the token of a pending call was sealed with a key that is gone."""


@runtime_checkable
class OffersApprovals(Protocol):
    """A `SessionStore` that brings the store of questions of its database."""

    def approvals(self) -> ApprovalStore:
        """Return the store, always the same one."""
