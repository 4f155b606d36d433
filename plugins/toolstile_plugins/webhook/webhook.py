"""The webhook: signed questions, and signed answers on their way to the inbox.

Both are signed as Standard Webhooks has it, whose libraries verify them:
https://www.standardwebhooks.com.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, Field, ValidationError

from toolstile_hookspecs import Answer, Principal, ResourceResolver, StateError
from toolstile_hookspecs.handles import Catalog
from toolstile_hookspecs.services.approval_store import AnswerRecord, Question
from toolstile_hookspecs.support.text import wire_time
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


def wire_of(question: Question, answer_url: str | None) -> bytes:
    """Return the message with a question, as JSON."""
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
        "answerUrl": answer_url,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


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


def read_reply(key: bytes, ticket: str, headers: Mapping[str, str], body: bytes) -> Reply:
    """Return the answer in a message; raises `StateError` if it is not signed, or no answer."""
    moment = headers.get(TIMESTAMP, "")
    ours = signature(key, f"{ticket}{ANSWER}", moment, body).encode()
    given = headers.get(SIGNATURE, "").encode(errors="replace").split(b" ")
    is_now = moment.isdecimal() and abs(int(moment[:12]) - datetime.now(UTC).timestamp()) <= OLDEST
    if not is_now or not any(hmac.compare_digest(ours, one) for one in given):
        raise StateError(_NOT_SIGNED)
    try:
        reply = Reply.model_validate_json(body)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise StateError(
            f"The answer cannot be read: {where} {error.errors()[0]['msg']}."
        ) from None
    if reply.answer is Answer.EDITED and reply.arguments is None:
        raise StateError("The edit has no arguments. Give all of them as arguments.")
    return reply


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
        ticket = headers.get(ID, "").removesuffix(ANSWER)
        try:
            self.take(ticket, headers, body)
        except StateError as error:
            log.warning("An answer to the question %r is rejected: %s", ticket, error)
            return HTTPStatus.CONFLICT, str(error)
        return HTTPStatus.OK, "The answer is kept."

    def take(self, ticket: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Answer a question; return False while the answer is pending.

        Raises:
            StateError: If the answer is not signed, does not fit, is from a person who may not
                give it, or comes after another answer.
        """
        reply = read_reply(self.settings.key, ticket, headers, body)
        if reply.answer is Answer.PENDING:
            return False
        if reply.by is None:
            raise StateError("The answer does not say who gives it. Name them as by.id.")
        question = self.inbox.store.get(ticket)
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
        return True

    def refuse(self, question: Question, fault: str) -> None:
        """Deny a question that still waits, because of a fault of the endpoint."""
        now = self.inbox.clock.now()
        given = AnswerRecord(Answer.DENIED, _ENDPOINT, VIA, now, fault.rstrip("."))
        try:
            self.inbox.keep(question, given)
        except StateError as error:
            log.info("%s", error)  # another answer was first
        else:
            log.warning("%s %s is denied: %s", question.tool, question.ticket, fault)
