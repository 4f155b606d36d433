"""The section Waiting: questions to a person, and their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import Answer, HostHandle, Principal, StateError
from toolstile_hookspecs.services.approval_store import Question, QuestionState
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.console.access import Access
from toolstile_plugins.console.pages import Pages, is_partial, lines_of, version_of, wants_json
from toolstile_plugins.inbox.inbox import Inbox, described_answer
from toolstile_plugins.inbox.wire import read_arguments, wire_of

VIA: Final = "console"
_ANSWERS: Final = {"approve": Answer.APPROVED, "deny": Answer.DENIED, "edit": Answer.EDITED}


@dataclass(frozen=True, slots=True)
class Card:
    """A question as a page shows it.

    Args:
        question: The question.
        state: Its state now.
        left: Seconds for which it can be answered.
        blocked: Why the person may not answer it, None where they may.
        fault: Why the last answer was not taken.
        written: The arguments that the person wrote, None where they wrote none.
    """

    question: Question
    state: QuestionState
    left: int
    blocked: str | None
    fault: str | None = None
    written: str | None = None

    @property
    def is_waiting(self) -> bool:
        """True while it can be answered."""
        return self.state is QuestionState.WAITING

    @property
    def answered(self) -> str:
        """The answer in words; "" where there is none."""
        return "" if self.question.answer is None else described_answer(self.question.answer)

    @property
    def arguments(self) -> Mapping[str, str]:
        """The arguments as text."""
        return lines_of(json.loads(self.question.arguments))

    @property
    def editable(self) -> str:
        """The arguments as JSON, to be edited."""
        if self.written is not None:
            return self.written
        arguments = json.loads(self.question.arguments)
        text = json.dumps(arguments, ensure_ascii=False, indent=2)
        # What cannot be seen as it is, is written as JSON escapes it.
        is_plain = printable(text, keep="\n") == text
        return text if is_plain else json.dumps(arguments, indent=2)


class Waiting:
    """Shows the questions that wait, and answers them in a person's name.

    Args:
        host: The host, whose tools check edits.
        inbox: The inbox, None where there is none.
        person: The person.
        access: Says which forms are genuine.
        pages: Shows the pages.

    Attributes:
        title: The title of the section.
        path: Its path.
    """

    title = "Waiting"
    path = ""

    def __init__(
        self,
        host: HostHandle,
        inbox: Inbox | None,
        person: Principal,
        access: Access,
        pages: Pages,
    ) -> None:
        self._host = host
        self._found = inbox
        self._person = person
        self._access = access
        self._pages = pages

    def routes(self) -> list[BaseRoute]:
        """Return the pages."""
        return [
            Route("/", self._page),
            Route("/questions", self._answer_several, methods=["POST"]),
            Route("/questions/{ticket}", self._show),
            Route("/questions/{ticket}", self._answer, methods=["POST"]),
        ]

    def version(self) -> str:
        """Return a version that changes with what waits."""
        waiting = [] if self._found is None else self._found.waiting()
        return version_of([(question.ticket, question.digest) for question in waiting])

    @property
    def _inbox(self) -> Inbox:
        if self._found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no inbox here.")
        return self._found

    # --- Pages

    def _page(self, request: Request) -> Response:
        return self._list(request)

    def _list(self, request: Request, told: Mapping[str, str] | None = None) -> Response:
        """Return the page of all that waits, with what came of answers."""
        waiting = [] if self._found is None else self._found.waiting()
        values = {
            "cards": [self._card(question) for question in waiting],
            "has_inbox": self._found is not None,
            "told": told or {},
        }
        wire = {"questions": [wire_of(question) for question in waiting]}
        return self._pages.show(request, "waiting.html", values, wire)

    def _show(self, request: Request) -> Response:
        return self._show_card(request, self._card(self._named(request.path_params["ticket"])))

    def _show_card(self, request: Request, card: Card, status: int = HTTPStatus.OK) -> Response:
        wire = {"question": wire_of(card.question), "fault": card.fault}
        template = "card.html" if is_partial(request) else "question.html"
        return self._pages.show(request, template, {"card": card}, wire, status)

    def _card(self, question: Question, **more: str | None) -> Card:
        now = self._inbox.clock.now()
        left = int((question.expires - now).total_seconds())
        blocked = self._inbox.settings.fault_of(self._person, question)
        return Card(question, question.state_at(now), left, blocked, **more)

    def _named(self, ticket: str) -> Question:
        if (found := self._inbox.store.get(ticket)) is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such question.")
        return found

    # --- Answers

    async def _answer(self, request: Request) -> Response:
        form = dict(await self._access.form(request))
        return await run_in_threadpool(self._take, request, form)

    def _take(self, request: Request, form: Mapping[str, str]) -> Response:
        question = self._named(request.path_params["ticket"])
        try:
            answered = self._give(question.ticket, form.get("digest", ""), form)
        except StateError as error:
            # An edit is kept, so that it can be corrected.
            written = form.get("arguments") if form.get("answer") == "edit" else None
            card = self._card(self._named(question.ticket), fault=str(error), written=written)
            return self._show_card(request, card, HTTPStatus.CONFLICT)
        if is_partial(request) or wants_json(request):
            return self._show_card(request, self._card(answered))
        return RedirectResponse(request.url.path, HTTPStatus.SEE_OTHER)

    async def _answer_several(self, request: Request) -> Response:
        fields = await self._access.form(request)
        return await run_in_threadpool(self._take_several, request, fields)

    def _take_several(self, request: Request, fields: list[tuple[str, str]]) -> Response:
        form, told = dict(fields), dict[str, str]()
        for chosen in (value for name, value in fields if name == "question"):
            ticket, _, digest = chosen.partition(".")
            try:
                answered = self._give(ticket, digest, form)
            except StateError as error:
                told[ticket] = str(error)
            else:
                told[ticket] = f"{answered.tool} {ticket} is {self._card(answered).answered}."
        if wants_json(request):
            return self._pages.show(request, "", {}, {"told": told})
        return self._list(request, told)

    def _give(self, ticket: str, digest: str, form: Mapping[str, str]) -> Question:
        """Answer a question as a form says.

        Raises:
            StateError: It cannot be answered like that.
        """
        answer = _ANSWERS.get(form.get("answer", ""))
        if answer is None:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "Approve, deny or edit.")
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
