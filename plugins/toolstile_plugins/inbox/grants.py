"""Grants of an inbox: sealed, listed, counted over all processes, and revoked.

A person who may answer a question can make a grant of it. The grant approves no more than that
question asked. A call that a policy denies stays denied, because no question is asked about it.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    Binding,
    Principal,
    ResourceResolver,
    StateError,
)
from toolstile_hookspecs.services.approval_store import (
    ApprovalStore,
    EventRecord,
    GrantRecord,
    OffersApprovalKey,
    Question,
)
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.services.json_forms import PRINCIPAL
from toolstile_hookspecs.support.text import printable, wire_time
from toolstile_plugins.approval.grants import GRANT, MOST_HOURS, SCOPES, Grant, Grants, Scope, Terms
from toolstile_plugins.inbox.inbox import ApprovalEvent, Inbox, OpenInbox
from toolstile_plugins.inbox.settings import InboxSettings

log = logging.getLogger("toolstile.inbox")

_NOBODY: Final = "The call has no principal, so it cannot be granted to its principal alone."
_UNCOUNTED: Final = (
    "Nothing is counted across processes here. Name a file as path in [plugins.sessions], or a "
    "database as url in [plugins.database], or grant it without a number of times."
)
_APPENDED: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND


@dataclass(frozen=True, slots=True)
class InboxGrants:
    """The grants of an inbox, as a resource; the counter counts the calls that they approve."""

    inbox: Inbox
    counter: Counter | None

    def answer_to(self, question: Question) -> ApprovalAnswer | None:
        """Return the answer of a grant to a question before it is asked; None without a grant."""
        for grant in self.all():
            # By the present rules, because the person may have lost the right to grant.
            if not grant.covers(question) or self._fault_of(grant, question) is not None:
                continue
            if grant.times is None or self.counter is None:
                return grant.answer
            # A failed call stays counted, as with a rate limit.
            key, window, now = _key(grant), MOST_HOURS * 3600, self.inbox.clock.now()
            if self.counter.reserve(key, 1, grant.times, window, uuid4().hex, now=now).granted:
                return grant.answer
        return None

    def add(self, grant: Grant, question: Question) -> None:
        """Store a grant that a person made of a question.

        Raises:
            StateError: The person may not grant this; the message is for them.
        """
        self._check(grant, question)
        sealed = self.inbox.seal.seal_grant(GRANT.text(grant))
        event = self._event("granted", grant, grant.by, via=grant.via, call=question.call_id)
        self.inbox.store.grant(GrantRecord(grant.id, grant.expires, sealed), event)
        self.inbox.events.to_record()
        log.info("%s granted %s (%s): %s.", grant.by.id, grant.id, grant.via, grant.described)

    def approve(
        self, ticket: str, by: Principal, terms: Terms, *, via: str, digest: str | None = None
    ) -> Question:
        """Approve a question and later calls like its own; return the updated question.

        Raises:
            StateError: The person may not answer the question, or not by these terms.
        """
        question = self.inbox.named(ticket)
        if (fault := terms.fault()) is not None:
            raise StateError(f"{question.tool} cannot be granted like that: {fault}")
        grant = terms.grant(question, by, via, self.inbox.clock.now())
        self._check(grant, question)
        reason = f"grant {grant.id}: {grant.described}"
        answered = self.inbox.answer(
            ticket, Answer.APPROVED, by, via=via, digest=digest, reason=reason
        )
        self.add(grant, question)
        return answered

    @property
    def counts(self) -> bool:
        """True if calls are counted across processes, so that a grant can have a maximum."""
        return self.counter is not None and self.counter.database is not None

    def scopes(self, question: Question, by: Principal) -> list[Scope]:
        """Return the scopes that a person may choose to grant the subject of a question."""
        now = self.inbox.clock.now()
        offered = [Terms(scope=scope).grant(question, by, "", now) for scope in SCOPES]
        return [grant.scope for grant in offered if self._fault_of(grant, question) is None]

    def all(self) -> list[Grant]:
        """Return the valid grants, the oldest first."""
        now, found = self.inbox.clock.now(), list[Grant]()
        records = self.inbox.store.grants()
        # Only for stored grants, because few hosts have some and reading must not make a key.
        file = self.inbox.seal.revoked if records else None
        revoked = {*file.read_text().split()} if file is not None and file.exists() else set[str]()
        for record in records:
            try:
                grant = GRANT.read(json.loads(self.inbox.seal.grant_of(record)))
            except StateError as error:
                log.warning("%s It approves nothing.", error)
                continue
            if grant.id not in revoked and now < grant.expires:
                found.append(grant)
        return found

    def used(self, grant: Grant) -> int:
        """Return how many calls a grant with a number of times has approved."""
        now = self.inbox.clock.now()
        return 0 if self.counter is None else int(self.counter.read(_key(grant), now=now))

    def revoke(self, id_: str, by: Principal, *, via: str = "") -> Grant:
        """Revoke a grant, and return it; raises `StateError` if no valid grant has that id."""
        grant = next((each for each in self.all() if each.id == id_), None)
        if grant is None:
            raise StateError(f"There is no grant {printable(id_)!r}. See which hold, then retry.")
        with os.fdopen(os.open(self.inbox.seal.revoked, _APPENDED, 0o600), "w") as revoked:
            revoked.write(f"{id_}\n")
        self.inbox.store.revoke(id_, self._event("revoked", grant, by, via=via))
        log.info("%s revoked the grant %s of %s.", by.id, id_, grant.by.id)
        self.inbox.events.to_record()
        return grant

    def wire_of(self, grant: Grant) -> dict[str, Any]:
        """Return a grant as JSON data."""
        whose = grant.principal
        return {
            "id": grant.id,
            "tool": grant.tool,
            "digest": grant.digest,
            "policies": list(grant.asked_by),
            "for": grant.scope,
            "session": grant.session_id,
            "principal": whose and PRINCIPAL.data(whose),
            "expires": wire_time(grant.expires),
            "times": grant.times,
            "used": None if grant.times is None else self.used(grant),
            "by": PRINCIPAL.data(grant.by),
            "via": grant.via,
        }

    def _event(self, act: str, grant: Grant, by: Principal, **more: Any) -> EventRecord:
        about = uuid4().hex, act, self.inbox.clock.now(), grant.tool, grant.id, grant.session_id
        event = ApprovalEvent(*about, by=by, reason=grant.described, **more)
        return self.inbox.events.sealed(event)

    # --- Validity

    def _check(self, grant: Grant, question: Question) -> None:
        if (fault := self._fault_of(grant, question)) is not None:
            raise StateError(f"{grant.tool} cannot be granted like that: {fault}")

    def _fault_of(self, grant: Grant, question: Question) -> str | None:
        """Return why the person may not grant the subject of a question; None if they may."""
        settings = self.inbox.settings
        if question.by_person:
            return "it changes protected files, about which a person is asked each time."
        if (fault := settings.fault_of(grant.by, question)) is not None:
            return fault
        widest = settings.widest_grant
        if widest == "none" or SCOPES.index(grant.scope) > SCOPES.index(widest):
            return f"widest_grant in [plugins.inbox] is {widest}."
        if grant.scope == "principal" and grant.principal is None:
            return _NOBODY
        if grant.times is not None and not self.counts:
            return _UNCOUNTED
        return None


def _key(grant: Grant) -> str:
    return f"inbox grant {grant.id}"


def bindings(settings: InboxSettings) -> list[Binding[Any]]:
    """Return the resources of an inbox that has a key."""

    def grants(resources: ResourceResolver) -> InboxGrants:
        counter: Counter | None = resources.get(Counter, None)  # type: ignore[type-abstract]
        return InboxGrants(resources.get(Inbox), counter)

    return [
        # In an open host, the state of the plugin replaces this binding.
        Binding(OpenInbox, lambda _: OpenInbox(settings)),
        Binding[ApprovalStore](
            ApprovalStore,  # type: ignore[type-abstract]
            lambda resources: resources.get(OpenInbox).store(resources),
        ),
        Binding[Inbox](Inbox, lambda resources: resources.get(OpenInbox).inbox(resources)),
        Binding[InboxGrants](InboxGrants, grants),
        Binding[OffersApprovalKey](
            OffersApprovalKey,  # type: ignore[type-abstract]
            lambda resources: resources.get(OpenInbox).key(resources),
        ),
        Binding[Grants](Grants, grants),  # type: ignore[type-abstract]
    ]
