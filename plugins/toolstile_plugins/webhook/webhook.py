"""The webhook: signed questions, and signed answers on their way to the inbox.

Both are signed as Standard Webhooks has it, whose libraries verify them:
https://www.standardwebhooks.com.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from toolstile_hookspecs import Answer, Principal, ResourceResolver, StateError
from toolstile_hookspecs.handles import Catalog
from toolstile_hookspecs.services.approval_store import AnswerRecord, Question, QuestionState
from toolstile_hookspecs.support.text import for_model, wire_time
from toolstile_plugins.inbox.inbox import Inbox
from toolstile_plugins.webhook.settings import WebhookSettings

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
ANSWER: Final = "-answer"
"""The end of the id of an answer: no other message can be sent back as an answer."""
OLDEST: Final = 300
"""Seconds by which the clocks of both sides may differ; an older message is a replay."""
_NOT_SIGNED: Final = (
    "The answer is not signed with the secret, or is of another question, or of another time. "
    f"Sign it now, with the id of the question and {ANSWER} as its id."
)


class Person(BaseModel):
    """The person who answers, as the endpoint vouches for them."""

    id: str = Field(min_length=1)
    source: str = "webhook"
    groups: frozenset[str] = frozenset()


class Reply(BaseModel):
    """The answer of an endpoint."""

    answer: Answer
    digest: str = ""
    by: Person | None = None
    reason: str | None = None
    arguments: dict[str, Any] | None = None


_REPLIES: Final[TypeAdapter[dict[str, Reply]]] = TypeAdapter(dict[str, Reply])


def wire_of(id_: str, questions: Sequence[Question], answer_url: str | None) -> bytes:
    """Return the message with a question, or with the questions of the turn of an id, as JSON."""
    rows = [_wire_of(question) for question in questions]
    message = rows[0] if rows[0]["id"] == id_ else {"id": id_, "questions": rows}
    if message is not rows[0] and (diff := questions[0].diff) is not None:
        # Because the calls of a transaction have one diff together.
        message["diff"] = diff
        for row in rows:
            del row["diff"]
    if answer_url is not None:
        message["answerUrl"] = answer_url
    return json.dumps(message).encode()


def _wire_of(question: Question) -> dict[str, Any]:
    fields = {
        "id": question.ticket,
        "tool": question.tool,
        "category": question.category,
        "consequenceLevel": question.consequence,
        "reasons": question.reasons,
        "arguments": json.loads(question.arguments),
        "diff": question.diff,
        "digest": question.digest,
        "sessionId": question.session_id,
        "agent": question.agent,
        "userId": question.principal and question.principal.id,
        "requestedAt": wire_time(question.created),
        "expiresAt": wire_time(question.expires),
    }
    return {name: value for name, value in fields.items() if value is not None}


def signed(key: bytes, id_: str, body: bytes) -> dict[str, str]:
    """Return the headers of a message that is signed now, under an id."""
    moment = str(int(datetime.now(UTC).timestamp()))
    return {ID: id_, TIMESTAMP: moment, SIGNATURE: signature(key, id_, moment, body)}


def signature(key: bytes, id_: str, moment: str, body: bytes) -> str:
    """Return the signature of a message.

    Example:
        >>> signature(b"k" * 24, "3f1c-answer", "1614265330", b"{}")
        'v1,kc4ypSSNIRsnAKQ9MdHQiO0L0xSh65NgsA4+KlTdJBQ='
    """
    start = f"{id_}.{moment}.".encode(errors="replace")
    return f"v1,{base64.b64encode(hmac.digest(key, start + body, 'sha256')).decode()}"


def read_replies(key: bytes, id_: str, headers: Mapping[str, str], body: bytes) -> dict[str, Reply]:
    """Return the answers in a message by ticket; raises `StateError` if it has no signed ones."""
    moment = headers.get(TIMESTAMP, "")
    ours = signature(key, f"{id_}{ANSWER}", moment, body).encode()
    given = headers.get(SIGNATURE, "").encode(errors="replace").split(b" ")
    is_now = moment.isdecimal() and abs(int(moment[:12]) - datetime.now(UTC).timestamp()) <= OLDEST
    if not is_now or not any(hmac.compare_digest(ours, one) for one in given):
        raise StateError(_NOT_SIGNED)
    try:
        given = from_json(body)
        is_of_turn = isinstance(given, dict) and "answers" in given
        replies = _REPLIES.validate_python(given["answers"] if is_of_turn else {id_: given})
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"][1:]))
        raise StateError(
            f"The answer cannot be read: {where} {error.errors()[0]['msg']}."
        ) from None
    except ValueError as error:
        raise StateError(f"The answer cannot be read: it is not JSON ({error}).") from None
    if any(each.answer is Answer.EDITED and each.arguments is None for each in replies.values()):
        raise StateError("The edit has no arguments. Give all of them as arguments.")
    return replies


log = logging.getLogger("toolstile.webhook")

VIA: Final = "webhook"
LARGEST: Final = 1024 * 1024
"""The most bytes of an answer."""
_ENDPOINT: Final = Principal("toolstile", VIA)
"""The principal of a denial because of a fault of the endpoint."""


@dataclass(frozen=True)
class HostTools:
    """The tools of the host, which check edits: the state of the plugin."""

    catalog: Catalog


@dataclass(eq=False)
class Webhook:
    """One way to answer the questions of an inbox, as a resource."""

    settings: WebhookSettings
    inbox: Inbox
    tools: HostTools | None = None

    @classmethod
    def made(cls, settings: WebhookSettings, resources: ResourceResolver) -> Webhook:
        """Return the webhook of a host with these resources."""
        return cls(settings, resources.get(Inbox), resources.get(HostTools, None))

    def receive(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Receive an answer of the endpoint; return the HTTP status and text for it.

        It waits for the store. A wrong answer changes nothing, and can be corrected.
        """
        if len(body) > LARGEST:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Send at most {LARGEST:,} bytes."
        headers = {name.lower(): value for name, value in headers.items()}
        id_ = headers.get(ID, "").removesuffix(ANSWER)
        try:
            self.take(id_, headers, body)
        except StateError as error:
            log.warning("An answer to the question %r is rejected: %s", id_, error)
            return HTTPStatus.CONFLICT, str(error)
        return HTTPStatus.OK, "The answer is kept."

    def take(self, id_: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Answer a question, or the questions of a turn; return False while an answer is pending.

        Raises:
            StateError: If the answer is not signed, does not fit, is from a person who may not
                give it, or comes after another answer.
        """
        for ticket, reply in read_replies(self.settings.key, id_, headers, body).items():
            if reply.answer is not Answer.PENDING:
                self._answer(id_, ticket, reply)
        return all(id_ not in {question.ticket, question.turn} for question in self.inbox.waiting())

    def _answer(self, id_: str, ticket: str, reply: Reply) -> None:
        if reply.by is None:
            raise StateError("The answer does not say who gives it. Name them as by.id.")
        question = self.inbox.store.get(ticket)
        if id_ != ticket:
            if question is None or question.turn != id_:
                raise StateError(f"The turn {id_} has no question {ticket}.")
            if question.state_at(self.inbox.clock.now()) is not QuestionState.WAITING:
                return  # because the answers to the other rows of the turn count all the same
        self.inbox.answer(
            ticket,
            reply.answer,
            Principal(reply.by.source, reply.by.id, reply.by.groups),
            via=VIA,
            digest=reply.digest,
            reason=reply.reason,
            arguments=reply.arguments if reply.answer is Answer.EDITED else None,
            tool=self.tools.catalog.get(question.tool) if self.tools and question else None,
        )

    def refuse(self, questions: Sequence[Question], fault: str) -> None:
        """Deny questions that still wait, because of a fault of the endpoint."""
        now = self.inbox.clock.now()
        given = AnswerRecord(Answer.DENIED, _ENDPOINT, VIA, now, for_model(fault).rstrip("."))
        for question in questions:
            try:
                self.inbox.keep(question, given)
            except StateError as error:
                log.info("%s", error)  # another answer was first
            else:
                log.warning("%s %s is denied: %s", question.tool, question.ticket, fault)
