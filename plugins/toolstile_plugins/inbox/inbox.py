"""The inbox: questions to people, their answers, and the events of both.

The store adds an event, sealed, in the transaction of its cause, and keeps the event until both
listeners have received it: the record of a host, and the session of the event.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any, Final, cast
from uuid import uuid4

from toolstile_hookspecs import (
    NOTICE,
    Answer,
    ApprovalAnswer,
    ApprovalRequest,
    Clock,
    ConfigurationError,
    Filesystem,
    HostHandle,
    Principal,
    ResourceResolver,
    SessionProtocol,
    StateError,
    SystemClock,
    Tool,
    ToolInvoked,
    ToolstileError,
    ToolValidationError,
    hide,
    hookimpl,
)
from toolstile_hookspecs.codecs import RETRY, SchemaCodec
from toolstile_hookspecs.services.approval_store import (
    ANSWERED,
    AnswerRecord,
    ApprovalStore,
    EventRecord,
    Listener,
    Moment,
    OffersApprovals,
    Question,
    QuestionClosedError,
    QuestionState,
    TakesTokens,
    UnknownQuestionError,
)
from toolstile_hookspecs.services.filesystem import SupportsDirectories
from toolstile_hookspecs.services.json_forms import PRINCIPAL, JsonForm
from toolstile_hookspecs.services.replay import Recorder
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.text import wire_time
from toolstile_plugins.approval.display import MASK, unmasked
from toolstile_plugins.inbox.seal import Seal, SealedCall, without_cryptography
from toolstile_plugins.inbox.settings import InboxSettings, refuse_within
from toolstile_plugins.inbox.sql import SqliteApprovals
from toolstile_plugins.leases import now_of

log = logging.getLogger("toolstile.inbox")


@dataclass(frozen=True, slots=True)
class ApprovalEvent:
    """An answer to a question, its end without an answer, or a grant that was added or revoked.

    Args:
        id: The id; an event that is delivered again after a crash has the same id.
        act: `approved`, `denied`, `edited`, `expired`, `withdrawn`, `granted` or `revoked`.
        at: The time; aware.
        tool: The name of the tool.
        subject: The ticket of the question, or the id of the grant.
        session: The id of the session.
        call: The id of the call of the question; "" for a revoked grant.
        by: The person; None without an answer.
        via: The way of the answer, such as `command line`.
        reason: The reason of a denial, or a description of the grant.
    """

    id: str
    act: str
    at: Moment
    tool: str
    subject: str
    session: str
    call: str = ""
    by: Principal | None = None
    via: str = ""
    reason: str | None = None

    @property
    def described(self) -> str:
        """The event in words, without the time."""
        by = "" if self.by is None else f" by {self.by.source} {self.by.id} ({self.via})"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.tool} {self.subject} {self.act}{by}{why}"

    def wire(self) -> dict[str, Any]:
        """Return the event as JSON data."""
        return {**EVENT.data(self), "at": wire_time(self.at)}


EVENT: Final = JsonForm(ApprovalEvent)


def event_of(question: Question, act: str, at: datetime, **more: Any) -> ApprovalEvent:
    """Return the event of an act on a question."""
    name, call, session = question.ticket, question.call_id, question.session_id
    return ApprovalEvent(uuid4().hex, act, at, question.tool, name, session, call, **more)


@dataclass(eq=False, slots=True)
class Events:
    """Delivers the events of an inbox to the record of the host and to sessions.

    Events are sealed, so that only a holder of the key can make one. As calls end, at least
    `interval` seconds pass between two polls for events to record.
    """

    store: ApprovalStore
    seal: Seal
    clock: Clock
    recorder: Recorder | None
    interval: float
    polled: float | None = None

    def sealed(self, event: ApprovalEvent) -> EventRecord:
        """Return an event in its stored form."""
        return EventRecord(event.session, event.at, self.seal.seal_event(EVENT.text(event)))

    def newest(self, most: int) -> list[ApprovalEvent]:
        """Return the newest events, the newest first."""
        kept = self.store.events(self.clock.now(), most)
        return [event for event in map(self._read, kept) if event is not None]

    def to_session(self, session: SessionProtocol) -> None:
        """Publish the events that a session has not received yet."""
        self._tell("session", session.dispatcher.publish, session.id)

    def to_record(self, *, is_due: bool = True) -> None:
        """Write the events without a record to the record of the host, if any.

        Unless `is_due`, this polls only after the interval.
        """
        recorder = self.recorder
        if recorder is None:
            return
        now = self.clock.monotonic()
        if is_due or self.polled is None or now - self.polled >= self.interval:
            self.polled = now
            try:
                self._tell("record", lambda event: recorder.note("approval", event.wire()))
            except (OSError, ToolstileError):
                log.exception("Answers could not be recorded; the next host tries.", extra=NOTICE)

    def _tell(
        self,
        listener: Listener,
        hear: Callable[[ApprovalEvent], object],
        session_id: str | None = None,
    ) -> None:
        def heard(record: EventRecord) -> None:
            if (event := self._read(record)) is not None:
                hear(event)

        self.store.tell(listener, self.clock.now(), heard, session_id=session_id)

    def _read(self, record: EventRecord) -> ApprovalEvent | None:
        """Return an event; log a forged event and return None."""
        try:
            return EVENT.read(json.loads(self.seal.event_of(record.sealed)))
        except StateError as error:
            log.warning("%s It is left out.", error)
            return None


ARGUMENTS: Final = "Arguments"
LATE: Final = "No one answered in time."
WITHDRAWN: Final = "The question was withdrawn."
FORGED: Final = "The answer that is kept is not genuine."
_KEY_IS_GONE: Final = (
    "{tool} {ticket} cannot be answered: the key that sealed its approval is gone. Put back the "
    "approval_key, or the key of the inbox, of the host that asked; else have the call made again."
)
_NO_TOOL: Final = (
    "The tool {name} is not installed here, so nothing checks the edit. Answer with the plugins of "
    "the host that asks, such as --plugin FILE.py, or approve or deny it; then retry."
)


@dataclass(frozen=True, slots=True)
class Inbox:
    """The questions of one host, as a resource for all that show questions.

    Args:
        settings: The settings.
        store: The store of the questions.
        seal: Seals calls and answers.
        clock: The source of time.
        events: Delivers the events of questions and grants.
        host: The host; None if it is not open.

    Example:
        >>> from toolstile import Host, Settings
        >>> settings = Settings(plugins={"inbox": {"path": "/tmp/toolstile-doc/inbox.db"}})
        >>> with Host(settings=settings) as host, host.executor() as tools:
        ...     tools.resources.get(Inbox).waiting()
        []
    """

    settings: InboxSettings
    store: ApprovalStore
    seal: Seal
    clock: Clock
    events: Events
    host: HostHandle | None = None

    def waiting(self) -> list[Question]:
        """Return the waiting questions, the oldest first."""
        now, waiting = self.clock.now(), {QuestionState.WAITING}
        found = self.store.questions(waiting)
        return [question for question in found if question.state_at(now) in waiting]

    def lost(self, question: Question) -> str | None:
        """Return why no answer to a question can count (its key is lost); None if one can."""
        return lost_in(question, self.seal, self.host)

    def ask(self, question: Question) -> None:
        """Store a question, and remove questions that ended long ago."""
        expiry = event_of(question, "expired", question.expires)
        self.store.add(question, self.events.sealed(expiry))
        self.store.prune(self.clock.now() - timedelta(seconds=self.settings.keep))

    def answer(  # noqa: PLR0913 - each is named
        self,
        ticket: str,
        answer: Answer,
        by: Principal,
        *,
        via: str,
        digest: str | None = None,
        reason: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        tool: Tool[Any, Any] | None = None,
    ) -> Question:
        """Answer a question, and return the updated question.

        Args:
            ticket: The question.
            answer: Approved, denied or edited.
            by: The person.
            via: The way of the answer, such as `command line`.
            digest: The digest that the person saw, if any.
            reason: The reason of a denial, for the model.
            arguments: The arguments of an edit, with masks for secrets.
            tool: The tool that checks an edit; without it, the schema in the question does.

        Raises:
            QuestionClosedError: The question was answered or expired before.
            UnknownQuestionError: No question has that ticket.
            StateError: The question was altered, the person may not answer it, or the edit does
                not fit the tool.
        """
        question = self.named(ticket)
        # Opened first, because an altered question must not be answered.
        call = self.seal.call_of(question)
        if (lost := self.lost(question)) is not None:
            raise StateError(lost)
        if (fault := self.settings.fault_of(by, question)) is not None:
            raise StateError(f"{question.tool} {ticket} cannot be answered by you: {fault}")
        if digest not in (None, question.digest):
            raise StateError(f"{ticket} does not ask about that any more. Look at it again.")
        if answer is Answer.EDITED and arguments is None:
            raise StateError("The edit has no arguments. Give all of them as arguments.")
        edited = None if arguments is None else _edited(call, arguments, tool)
        given = AnswerRecord(answer, by, via, self.clock.now(), reason)
        answered = self.keep(question, given, edited)
        log.info("%s %s was %s by %s (%s).", question.tool, ticket, answer, by.id, via)
        return answered

    def keep(self, question: Question, given: AnswerRecord, edited: str | None = None) -> Question:
        """Store an answer without checking the person; return the updated question.

        Raises:
            QuestionClosedError: The question was answered or expired before.
            StateError: The question was altered.
        """
        if given.at >= question.expires:
            # Because the sealed expiry is genuine, and the one in the store may not be.
            raise StateError(too_late(question, given.at))
        secrets = _secrets(json.loads(question.arguments), self.seal.call_of(question))
        reason = given.reason and hide(given.reason, secrets)
        about = {"by": given.by, "via": given.via, "reason": reason}
        event = self.events.sealed(event_of(question, given.answer, given.at, **about))
        given = self.seal.seal_answer(question, given, edited)
        answered = self.store.answer(question.ticket, given, event)
        if answered is None or answered.answer != given:
            raise QuestionClosedError(too_late(answered or question, given.at))
        self.events.to_record()
        return answered

    def withdraw(self, ticket: str, by: Principal, *, via: str) -> Question:
        """End a waiting question, and return the updated question; its call does not run.

        Raises:
            UnknownQuestionError: No question has that ticket.
            QuestionClosedError: The question was answered or expired before.
        """
        question = self.named(ticket)
        if self.lost(question) is None:
            # As an answer, because the first answer counts.
            given = AnswerRecord(Answer.DENIED, by, via, self.clock.now(), WITHDRAWN)
            return self.keep(question, given)
        self.end(question, QuestionState.WITHDRAWN)
        return self.named(ticket)

    def named(self, ticket: str) -> Question:
        """Return the question of a ticket."""
        if (question := self.store.get(ticket)) is None:
            raise UnknownQuestionError(
                f"There is no question {ticket}. See which wait, then retry."
            )
        return question

    def end(self, question: Question, state: QuestionState) -> None:
        """Close a question whose call has ended or was abandoned."""
        event = event_of(question, state, self.clock.now())
        is_told = state is QuestionState.WITHDRAWN
        self.store.end(question.ticket, state, self.events.sealed(event) if is_told else None)
        self.events.to_record()

    def answer_to(self, question: Question) -> ApprovalAnswer:
        """Return the answer of a question; a forged answer counts as none."""
        if question.answer is None or question.answer.at >= question.expires:
            is_withdrawn = question.state is QuestionState.WITHDRAWN
            return ApprovalAnswer.unanswered(WITHDRAWN if is_withdrawn else LATE)
        try:
            return self.seal.answer_to(question, question.answer)
        except StateError:
            log.exception("The answer to %s is not genuine.", question.ticket)
            return ApprovalAnswer.unanswered(FORGED)

    def claim(self, question: Question, *, holder: str = "", seconds: float | None = None) -> bool:
        """Claim the call of a question, by default for the `lease` of the settings.

        The holder can extend the claim by its name.
        """
        now = now_of(self.store, self.clock)
        until = now + timedelta(seconds=seconds or self.settings.lease)
        return self.store.claim(question.ticket, holder or uuid4().hex, now, until)


def lost_in(question: Question, seal: Seal, host: HostHandle | None) -> str | None:
    """Return why no answer to a question can count; see `Inbox.lost`."""
    try:
        token = seal.call_of(question).token
    except StateError as error:
        return str(error)
    # A row of a transaction has no token, because its call is not resumed.
    if not token or not isinstance(host, TakesTokens) or host.takes(token):
        return None
    return _KEY_IS_GONE.format(tool=question.tool, ticket=question.ticket)


def described_answer(given: AnswerRecord) -> str:
    """Return an answer, its person, time and way, in words."""
    why = f": {given.reason}" if given.reason else ""
    return f"{given.answer} by {given.by.id} at {wire_time(given.at)} ({given.via}){why}"


def by_turn(questions: Iterable[Question]) -> dict[str, list[Question]]:
    """Return questions by their turn, or by their ticket if each stands by itself."""
    found: dict[str, list[Question]] = {}
    for question in questions:
        found.setdefault(question.turn or question.ticket, []).append(question)
    return found


def parts_of(question: Question) -> dict[str, str]:
    """Return the arguments and the changes of a question as texts by title."""
    parts = {
        ARGUMENTS: json.dumps(json.loads(question.arguments), ensure_ascii=False, indent=2),
        "It was approved when it would have changed": question.shown_before,
        "It would change": question.diff,
    }
    return {title: text for title, text in parts.items() if text is not None}


def _secrets(shown: Any, call: SealedCall) -> Iterator[str]:
    """Yield the masked arguments of a call as texts."""
    places: list[tuple[Any, Any]] = [(shown, json.loads(call.arguments))]
    for part, whole in places:
        if part == MASK:
            yield from [whole] if isinstance(whole, str) else [json.dumps(whole)]
        elif isinstance(part, dict):
            inside = cast("dict[str, Any]", part)
            places += [(inside[name], whole[name]) for name in inside]
        elif isinstance(part, list):
            places += zip(cast("list[object]", part), whole, strict=True)


def _edited(call: SealedCall, arguments: Mapping[str, Any], tool: Tool[Any, Any] | None) -> str:
    if tool is None and call.schema is None:
        raise StateError(_NO_TOOL.format(name=call.name))
    try:
        edited = json.dumps(unmasked(dict(arguments), json.loads(call.arguments)))
        if tool is not None:
            tool.parse(edited)
        elif call.schema is not None:
            SchemaCodec(json.loads(call.schema), owner=call.name).decode(edited)
    except ToolValidationError as error:
        raise StateError(str(error).removesuffix(RETRY)) from error
    except ValueError as error:
        raise StateError(str(error)) from error
    return edited


def too_late(question: Question, now: datetime) -> str:
    """Return why a closed question cannot be answered."""
    name = f"{question.tool} {question.ticket}"
    state = question.state_at(now)
    if question.answer is not None and (state in ANSWERED or state is QuestionState.RESUMED):
        return f"{name} was {described_answer(question.answer)}. The first answer counts."
    if state is QuestionState.EXPIRED:
        return f"{name} could be answered until {wire_time(question.expires)}."
    return f"{name} is {state} and takes no more answers."


def told_later(question: Question) -> str:
    """Return how the model gets the result of a call that ended as pending."""
    asked = f"A person will answer question {question.ticket}."
    if question.owner:
        return asked
    if question.turn and question.diff is not None:
        return f"{asked} Then make all calls of this turn again together, with the same arguments."
    return f"{asked} Then call {question.tool} again with the same arguments."


# --- JSON of questions, for commands and the console


def wire_of(question: Question, lost: str | None = None) -> dict[str, Any]:
    """Return a question as JSON data, with the reason why no answer to it can count."""
    given, principal = question.answer, question.principal
    return {
        "ticket": question.ticket,
        "tool": question.tool,
        "category": question.category,
        "consequence": question.consequence,
        "reasons": list(question.reasons),
        "arguments": json.loads(question.arguments),
        "diff": question.diff,
        "shownBefore": question.shown_before,
        "digest": question.digest,
        "callId": question.call_id,
        "turn": question.turn or None,
        "session": question.session_id,
        "agent": question.agent,
        "principal": principal and PRINCIPAL.data(principal),
        "created": wire_time(question.created),
        "expires": wire_time(question.expires),
        "state": question.state.value,
        "lost": lost,
        "answer": given
        and {
            "answer": given.answer.value,
            "by": PRINCIPAL.data(given.by),
            "via": given.via,
            "at": wire_time(given.at),
            "reason": given.reason,
        },
    }


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that a person wrote; raises `StateError` if they are no JSON object."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError(f"The arguments are not JSON: {error}. Correct them.") from None
    if not isinstance(arguments, dict):
        raise StateError("The arguments are not a JSON object. Write {...}.")
    return cast("dict[str, Any]", arguments)


_UNUSED: Final = (
    "Questions are kept where sessions are stored, in %s: path of [plugins.inbox] is not used. "
    "Remove it there, and name the file of the key as key."
)
_NO_STORE: Final = (
    "[plugins.inbox] has a key, and nothing that keeps questions. Name a file as path, or a "
    "database as url in [plugins.database]."
)


class Ended:
    """Closes the question of an answered call when the call ends, and records events."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], tuple[Inbox, str]] = {}
        self.events: Events | None = None

    def note(self, inbox: Inbox, question: Question, request: ApprovalRequest) -> None:
        """Note that the call of a request continues with the answer to a question."""
        self._taken[request.context.session.id, request.call.id] = (inbox, question.ticket)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Close the question of a call that has ended."""
        if (taken := self._taken.pop((event.session_id, event.call_id), None)) is not None:
            inbox, ticket = taken
            inbox.store.end(ticket, QuestionState.RESUMED)
        if self.events is not None:
            self.events.to_record(is_due=False)


class OpenInbox:
    """The inbox of one host; its store and its parts are made at their first use."""

    def __init__(self, settings: InboxSettings, host: HostHandle | None = None) -> None:
        assert settings.key_file is not None  # noqa: S101 - offered only then
        if host is not None and find_spec("cryptography") is None:
            raise without_cryptography()
        self.ended = Ended()
        self._settings, self._host = settings, host
        self._seal = Seal(settings.key_file, settings.secret)
        self._store: ApprovalStore | None = None
        self._inbox: Inbox | None = None

    def store(self, resources: ResourceResolver) -> ApprovalStore:
        """Return the store of the questions; raises `ConfigurationError` if none is configured."""
        path = self._settings.path
        sessions: SessionStore | None = resources.get(SessionStore, None)  # type: ignore[type-abstract]
        if isinstance(sessions, OffersApprovals):
            if path is not None and self._store is None:
                log.warning(_UNUSED, sessions.database, extra=NOTICE)
            self._store = sessions.approvals()
        elif path is None:
            raise ConfigurationError(_NO_STORE)
        elif self._store is None:
            self._store = SqliteApprovals(path)
        return self._store

    def inbox(self, resources: ResourceResolver) -> Inbox:
        """Return the one inbox; raises `ConfigurationError` if tools could use its files."""
        files: Any = resources.get(Filesystem, None)  # type: ignore[type-abstract]
        if isinstance(files, SupportsDirectories):
            refuse_within(files.directories, self._settings)
        store: ApprovalStore = resources.get(ApprovalStore)  # type: ignore[type-abstract]
        if self._inbox is None:
            host, settings = self._host, self._settings
            clock = SystemClock() if host is None else host.clock
            recorder = resources.get(Recorder, None)
            events = Events(store, self._seal, clock, recorder, settings.interval)
            self._inbox = Inbox(settings, store, self._seal, clock, events, host)
            self.ended.events = events
        return self._inbox

    def key(self, resources: ResourceResolver) -> Seal:
        """Return the key of approvals; refuse a key that opens none of the waiting questions."""
        if self._host is not None and self._host.purpose != "look":
            waiting: Sequence[Question] = ()
            with suppress(StateError, ConfigurationError):  # because each use raises the reason
                waiting = self.store(resources).questions({QuestionState.WAITING})
            self._seal.refuse_other(waiting)
        return self._seal

    def close(self) -> None:
        """Close the store, if it was used."""
        if self._store is not None:
            self._store.close()
