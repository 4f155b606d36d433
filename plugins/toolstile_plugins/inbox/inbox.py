"""The inbox: questions to people, and their answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast
from uuid import uuid4

from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    Clock,
    HostHandle,
    Principal,
    StateError,
    Tool,
    ToolValidationError,
    hide,
)
from toolstile_hookspecs.codecs import RETRY, SchemaCodec
from toolstile_hookspecs.services.approval_store import (
    ANSWERED,
    AnswerRecord,
    ApprovalStore,
    Question,
    QuestionClosedError,
    QuestionState,
    TakesTokens,
    UnknownQuestionError,
)
from toolstile_hookspecs.services.json_forms import PRINCIPAL
from toolstile_hookspecs.support.text import wire_time
from toolstile_plugins.approval.display import MASK, unmasked
from toolstile_plugins.inbox.events import Events, event_of
from toolstile_plugins.inbox.seal import Seal, SealedCall
from toolstile_plugins.inbox.settings import InboxSettings

log = logging.getLogger("toolstile.inbox")

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

    def claim(
        self, question: Question, now: datetime, *, holder: str = "", seconds: float | None = None
    ) -> bool:
        """Claim the call of a question, by default for the `lease` of the settings.

        The holder can extend the claim by its name.
        """
        until = now + timedelta(seconds=seconds or self.settings.lease)
        return self.store.claim(question.ticket, holder or uuid4().hex, now, until)


def lost_in(question: Question, seal: Seal, host: HostHandle | None) -> str | None:
    """Return why no answer to a question can count; see `Inbox.lost`."""
    try:
        token = seal.call_of(question).token
    except StateError as error:
        return str(error)
    if not isinstance(host, TakesTokens) or host.takes(token):
        return None
    return _KEY_IS_GONE.format(tool=question.tool, ticket=question.ticket)


def described_answer(given: AnswerRecord) -> str:
    """Return an answer, its person, time and way, in words."""
    why = f": {given.reason}" if given.reason else ""
    return f"{given.answer} by {given.by.id} at {wire_time(given.at)} ({given.via}){why}"


def parts_of(question: Question) -> dict[str, str]:
    """Return the arguments and the changes of a question as texts by title."""
    parts = {
        "Arguments": json.dumps(json.loads(question.arguments), ensure_ascii=False, indent=2),
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
        "session": question.session_id,
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
    """Return the arguments that a person has written as JSON.

    Raises:
        StateError: They are not a JSON object.
    """
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError(f"The arguments are not JSON: {error}. Correct them.") from None
    if not isinstance(arguments, dict):
        raise StateError("The arguments are not a JSON object. Write {...}.")
    return cast("dict[str, Any]", arguments)
