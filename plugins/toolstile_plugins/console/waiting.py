"""The section Waiting: questions to a person, and their answers; and the stop of calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import Answer, ConfigurationError, HostHandle, Principal, StateError
from toolstile_hookspecs.services.approval_store import Question, QuestionState
from toolstile_hookspecs.stops import SCOPES
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.approval.grants import HOURS, Terms
from toolstile_plugins.console.access import Fields
from toolstile_plugins.console.pages import Pages, is_partial, lines_of, version_of, wants_json
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.inbox.inbox import Inbox, by_turn, described_answer, read_arguments, wire_of

VIA: Final = "console"
LATELY: Final = 20
"""The number of newest answers, grants and revocations on the page."""
_ANSWERS: Final = {"approve": Answer.APPROVED, "deny": Answer.DENIED, "edit": Answer.EDITED}


@dataclass(eq=False)
class Waiting:
    """Shows the questions that wait, answers them in a person's name, and stops calls."""

    title: ClassVar[str] = "Waiting"
    path: ClassVar[str] = ""

    _host: HostHandle
    _found: InboxGrants | None
    """The grants of the inbox, None without an inbox."""
    _person: Principal
    _pages: Pages

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self._list),
            self._pages.form("/questions", self._answer_several),
            Route("/questions/{ticket}", self._show),
            self._pages.form("/questions/{ticket}", self._answer),
            self._pages.form("/grants/{grant}", self._revoke),
            self._pages.form("/stop", self._stop, once=True),
            self._pages.form("/go", self._go, once=True),
        ]

    def version(self) -> str:
        stops = [str(stop) for stop in self._host.stops()]
        if self._found is None:
            return version_of(stops)
        waiting = [(question.ticket, question.digest) for question in self._inbox.waiting()]
        lately = [event.id for event in self._inbox.events.newest(1)]
        return version_of([stops, waiting, [grant.id for grant in self._found.all()], lately])

    @property
    def _grants(self) -> InboxGrants:
        if self._found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "This host has no inbox.")
        return self._found

    @property
    def _inbox(self) -> Inbox:
        return self._grants.inbox

    # --- Pages

    def _list(self, request: Request, told: Mapping[str, str] | None = None) -> Response:
        waiting = [] if self._found is None else self._inbox.waiting()
        granted = [] if self._found is None else self._found.all()
        lately = [] if self._found is None else self._inbox.events.newest(LATELY)
        values = {
            "turns": [[*map(self._card, rows)] for rows in by_turn(waiting).values()],
            "granted": granted,
            "lately": lately,
            "has_inbox": self._found is not None,
            "is_alone": self._host.is_alone,
            "told": told or {},
        }
        wire = {
            "questions": [wire_of(question) for question in waiting],
            "grants": [self._grants.wire_of(grant) for grant in granted],
            "lately": [event.wire() for event in lately],
        }
        return self._pages.show(request, "waiting.html", values, wire)

    def _show(self, request: Request) -> Response:
        return self._show_card(request, self._card(self._named(request.path_params["ticket"])))

    def _show_card(
        self, request: Request, card: dict[str, Any], status: int = HTTPStatus.OK
    ) -> Response:
        wire = {"question": wire_of(card["question"]), "fault": card["fault"]}
        template = "card.html" if is_partial(request) else "question.html"
        return self._pages.show(request, template, {"card": card}, wire, status)

    def _card(
        self, question: Question, fault: str | None = None, written: str | None = None
    ) -> dict[str, Any]:
        """Return a question as a page shows it, with the fault of an answer, and its arguments."""
        inbox, now = self._inbox, self._inbox.clock.now()
        state, arguments = question.state_at(now), json.loads(question.arguments)
        return {
            "question": question,
            "state": state,
            "is_waiting": state is QuestionState.WAITING,
            "left": int((question.expires - now).total_seconds()),
            "blocked": inbox.lost(question) or inbox.settings.fault_of(self._person, question),
            "scopes": self._grants.scopes(question, self._person),
            "counts": self._grants.counts,
            "answered": "" if question.answer is None else described_answer(question.answer),
            "arguments": lines_of(arguments),
            "editable": _editable(arguments) if written is None else written,
            "written": written,
            "fault": fault,
        }

    def _named(self, ticket: str) -> Question:
        if (found := self._inbox.store.get(ticket)) is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "The inbox has no such question.")
        return found

    # --- Answers

    def _answer(self, request: Request, fields: Fields) -> Response:
        form, question = dict(fields), self._named(request.path_params["ticket"])
        try:
            answered = self._give(question.ticket, form.get("digest", ""), form)
        except StateError as error:
            # An edit is kept, so that it can be corrected.
            written = form.get("arguments") if form.get("answer") == "edit" else None
            card = self._card(self._named(question.ticket), fault=str(error), written=written)
            return self._show_card(request, card, HTTPStatus.CONFLICT)
        return self._pages.done(request, f"questions/{answered.ticket}", self._show)

    def _answer_several(self, request: Request, fields: Fields) -> Response:
        form, told = dict(fields), dict[str, str]()
        for chosen in (value for name, value in fields if name == "question"):
            ticket, _, digest = chosen.partition(".")
            given = form
            if form.get("answer") == "rows":  # the card of a turn has a choice for each row
                given = {**form, "answer": form.get(f"row {chosen}", "")}
                if not given["answer"]:
                    continue
            try:
                answered = self._give(ticket, digest, given)
            except StateError as error:
                told[ticket] = str(error)
            except HTTPException as error:  # the others are answered all the same
                told[ticket] = error.detail
            else:
                told[ticket] = f"{answered.tool} {ticket} is {self._card(answered)['answered']}."
        if wants_json(request):
            return self._pages.show(request, "", {}, {"told": told})
        return self._list(request, told)

    def _give(self, ticket: str, digest: str, form: Mapping[str, str]) -> Question:
        """Answer a question by a form; raise `StateError` if the answer does not fit."""
        if form.get("answer") == "grant":
            scope: Any = form.get("for", "session")
            try:
                hours = float(form.get("hours") or HOURS)
                times = int(form["times"]) if form.get("times") else None
            except ValueError:
                raise StateError("Write hours and times as numbers.") from None
            return self._grants.approve(
                ticket,
                self._person,
                Terms(is_exact=form.get("what") != "tool", scope=scope, hours=hours, times=times),
                via=VIA,
                digest=digest,
            )
        answer = _ANSWERS.get(form.get("answer", ""))
        if answer is None:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "Approve, deny, edit or grant.")
        question = self._named(ticket)
        is_edit = answer is Answer.EDITED
        return self._inbox.answer(
            ticket,
            answer,
            self._person,
            via=VIA,
            digest=digest,
            reason=(form.get("reason", "").strip() or None) if answer is Answer.DENIED else None,
            arguments=read_arguments(form.get("arguments", "")) if is_edit else None,
            tool=self._host.catalog.get(question.tool) if is_edit else None,
        )

    # --- Grants

    def _revoke(self, request: Request, _: Fields) -> Response:
        try:
            grant = self._grants.revoke(request.path_params["grant"], self._person, via=VIA)
        except StateError as error:
            raise HTTPException(HTTPStatus.NOT_FOUND, str(error)) from None
        told = f"{grant.tool} {grant.id} is revoked."
        if wants_json(request):
            return self._pages.show(request, "", {}, {"revoked": self._grants.wire_of(grant)})
        return self._list(request, {grant.id: told})

    # --- Stop and go

    def _stop(self, request: Request, fields: Fields) -> Response:
        form = {name: value.strip() for name, value in fields}
        kind, name = form.get("kind", "all"), form.get("name", "")
        scope: dict[str, Any] = {} if kind == "all" else {kind: name}
        if scope and not (name and SCOPES.issuperset(scope)):
            fault = f"Nothing is stopped: write the name of one of {sorted(SCOPES)}, then retry."
            raise HTTPException(HTTPStatus.BAD_REQUEST, fault)
        try:
            self._host.stop(form.get("reason", ""), by=self._person.id, **scope)
        except ConfigurationError as error:
            fault = f"Nothing is stopped: {error}"
            raise HTTPException(HTTPStatus.BAD_REQUEST, fault) from None
        return self._pages.done(request, "", self._wire_of_stops)

    def _go(self, request: Request, fields: Fields) -> Response:
        stops = self._host.stops()
        if stops:
            title, button = "End these stops?", "End all stops: calls run again"
            points = [str(stop) for stop in stops]
            if asked := self._pages.ask_again(request, fields, title, points, button):
                return asked
            # A stop of another process that the person has not seen stays.
            self._host.go(*stops)
        return self._pages.done(request, "", self._wire_of_stops)

    def _wire_of_stops(self, request: Request) -> Response:
        wire, show = {"stops": [*map(str, self._host.stops())]}, self._pages.show
        return show(request, "", {}, wire) if wants_json(request) else self._list(request)


def _editable(arguments: Any) -> str:
    text = json.dumps(arguments, ensure_ascii=False, indent=2)
    # Invisible characters are shown as JSON escapes.
    is_plain = printable(text, keep="\n") == text
    return text if is_plain else json.dumps(arguments, indent=2)
