"""The answers of an endpoint, as they reach the inbox."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from toolstile_hookspecs import Answer, Principal, StateError
from toolstile_hookspecs.services.approval_store import AnswerRecord, Question
from toolstile_plugins.inbox.inbox import Inbox
from toolstile_plugins.webhook.messages import ANSWER, ID, read_reply
from toolstile_plugins.webhook.settings import WebhookSettings

log = logging.getLogger("toolstile.webhook")

VIA: Final = "webhook"
LARGEST: Final = 1024 * 1024
"""Bytes of an answer that are read."""
_ENDPOINT: Final = Principal("toolstile", VIA)
"""The giver of a denial where the endpoint is at fault."""


class Webhook:
    """One way to answer the questions of an inbox, as a resource.

    Args:
        settings: The settings.
        inbox: The inbox.
    """

    def __init__(self, settings: WebhookSettings, inbox: Inbox) -> None:
        self.settings = settings
        self.inbox = inbox

    def receive(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
        """Take an answer that the endpoint sends; return the HTTP status and text for it.

        It waits for the store. A wrong answer changes nothing, and can be corrected.
        """
        if len(body) > LARGEST:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Send at most {LARGEST:,} bytes."
        headers = {name.lower(): value for name, value in headers.items()}
        ticket = headers.get(ID, "").removesuffix(ANSWER)
        try:
            self.take(ticket, headers, body)
        except StateError as error:
            log.warning("An answer to the question %r is not taken: %s", ticket, error)
            return HTTPStatus.CONFLICT, str(error)
        return HTTPStatus.OK, "The answer is kept."

    def take(self, ticket: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Answer a question; return whether there is an answer yet.

        Raises:
            StateError: It is not signed, does not fit, is from somebody who may not give it, or
                another one came first.
        """
        reply = read_reply(self.settings.key, ticket, headers, body)
        if reply.answer is Answer.PENDING:
            return False
        if reply.by is None:
            raise StateError("The answer does not say who gives it. Name them as by.id.")
        catalog, question = self.settings.catalog, self.inbox.store.get(ticket)
        self.inbox.answer(
            ticket,
            reply.answer,
            Principal(reply.by.source, reply.by.id, reply.by.groups),
            via=VIA,
            digest=reply.digest,
            reason=reply.reason,
            arguments=reply.arguments if reply.answer is Answer.EDITED else None,
            tool=catalog.get(question.tool) if catalog and question else None,
        )
        return True

    def refuse(self, question: Question, fault: str) -> None:
        """Deny a question that still waits, as its endpoint is at fault."""
        now = self.inbox.clock.now()
        given = AnswerRecord(Answer.DENIED, _ENDPOINT, VIA, now, fault.rstrip("."))
        try:
            self.inbox.keep(question, given)
        except StateError as error:
            log.info("%s", error)  # somebody was first
        else:
            log.warning("%s %s is denied: %s", question.tool, question.ticket, fault)
