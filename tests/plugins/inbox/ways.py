"""The ways to answer a question, each as a person uses it, behind one face."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, ClassVar

import httpx2
from tests.plugins.webhook.conftest import ADA, SECRET, Endpoint, headers_of

from toolstile import Executor, Host
from toolstile_cli.main import main
from toolstile_hookspecs import Answer, StateError
from toolstile_hookspecs.services.approval_store import Question, QuestionState
from toolstile_plugins.approval.beside import person
from toolstile_plugins.console import Console
from toolstile_plugins.inbox.cards import Cards
from toolstile_plugins.webhook import Webhook

from .conftest import BOB, House, inbox_of, until

TILLS = """\
from tests.plugins.inbox.conftest import generate, pay
from toolstile_hookspecs import MarkdownSection, hookimpl

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="tills", title="Tills", tools=[pay, generate])]
"""


class Way:
    """A way to answer; this one is the store itself, as an application uses it.

    Attributes:
        via: The name of the way in answers.
        by: The person.
        plugins: The tables of the plugins that it needs.
        offers: The answers that can be given.
        corrects: Whether what is wrong is told, and can be corrected.
        is_told: Whether a person who is too late is told why; else that nobody waits.
    """

    via: ClassVar[str] = "test"
    by: ClassVar[str] = BOB.id
    plugins: ClassVar[dict[str, Any]] = {}
    offers: ClassVar[frozenset[Answer]] = frozenset({Answer.APPROVED, Answer.DENIED, Answer.EDITED})
    corrects: ClassVar[bool] = True
    is_told: ClassVar[bool] = True

    def __init__(self, house: House, endpoint: Endpoint, said: Callable[[], str]) -> None:
        self.house = house
        self.endpoint = endpoint
        self.said = said

    def begin(self, host: Host, tools: Executor) -> None:
        """Take the host through which it answers, in place of an earlier one."""
        self.host = host
        self.tools = tools
        self.inbox = inbox_of(tools)

    def see(self, question: Question) -> None:
        """Look at the question, as a person does before they answer."""

    def answer(self, question: Question, answer: Answer, **more: Any) -> str:
        """Answer what was seen; return why that is refused, "" where it is taken."""
        try:
            self.give(question, answer, **more)
        except StateError as error:
            return str(error)
        return ""

    def give(self, question: Question, answer: Answer, **more: Any) -> None:
        tool = self.host.catalog.get(question.tool)
        more = {"via": self.via, "digest": question.digest, "tool": tool, **more}
        self.inbox.answer(question.ticket, answer, BOB, **more)


class CommandLine(Way):
    via = "command line"
    by = person().id

    def begin(self, host: Host, tools: Executor) -> None:
        super().begin(host, tools)
        folder = self.house.folder
        (folder / "tills.py").write_text(TILLS, encoding="utf-8")
        (folder / "toolstile.toml").write_text(
            f'approver = "inbox"\nplugin_files = ["tills.py"]\n\n[plugins.inbox]\n'
            f'path = "{folder / "inbox" / "inbox.db"}"\n',
            encoding="utf-8",
        )

    def answer(self, question: Question, answer: Answer, **more: Any) -> str:
        name = {"approved": "approve", "denied": "deny", "edited": "edit"}[answer]
        command = ["approvals", name, question.ticket, "--digest", question.digest]
        if "reason" in more:
            command += ["--reason", more["reason"]]
        if "arguments" in more:
            command.insert(3, json.dumps(more["arguments"]))
        config = str(self.house.folder / "toolstile.toml")
        status = main(["--config", config, *command])
        told = self.said()
        assert bool(told) is (status != 0)
        return told


class Card(Way):
    via = "chat"
    offers = frozenset({Answer.APPROVED, Answer.DENIED})

    def see(self, question: Question) -> None:
        self.cards = Cards(self.inbox, via=self.via)
        buttons = self.cards.card(question).buttons
        self.values = {button.answer: button.value for button in buttons}
        assert self.values.keys() == self.offers

    def give(self, question: Question, answer: Answer, **more: Any) -> None:
        self.cards.answer(self.values[answer], BOB, **more)


class WebConsole(Way):
    via = "console"
    plugins: ClassVar[dict[str, Any]] = {"console": {}}

    def begin(self, host: Host, tools: Executor) -> None:
        super().begin(host, tools)
        self.console = Console(host, "http://127.0.0.1:8000", person=BOB)

    def answer(self, question: Question, answer: Answer, **more: Any) -> str:
        name = {"approved": "approve", "denied": "deny", "edited": "edit"}[answer]
        fields = {"answer": name, "digest": question.digest, **more}
        if "arguments" in more:
            fields["arguments"] = json.dumps(more["arguments"])
        return asyncio.run(self._post(question.ticket, fields))

    async def _post(self, ticket: str, fields: dict[str, str]) -> str:
        address, _, token = self.console.url.partition("/#")
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.console),
            base_url=address,
            headers={"origin": address, "accept": "application/json"},
        ) as client:
            entered = await client.post("/login", data={"token": token})
            room = entered.headers["location"]
            page = await client.get(room, headers={"accept": "text/html"})
            found = re.search(r'name="csrf" value="([^"]+)"', page.text)
            csrf = found.group(1) if found else self.console._access.csrf
            data = {"csrf": csrf, **fields}
            given = await client.post(f"{room}questions/{ticket}", data=data)
            return str(given.json()["fault"] or "")


class Callback(Way):
    via = "webhook"
    by = str(ADA["id"])

    @property
    def plugins(self) -> dict[str, Any]:  # type: ignore[override]
        url = "https://shop.example.org/answers"
        return {"webhook": {"url": self.endpoint.url, "secret": SECRET, "answer_url": url}}

    def answer(self, question: Question, answer: Answer, **more: Any) -> str:
        told = {"answer": answer.value, "by": ADA, "digest": question.digest, **more}
        body = json.dumps(told).encode()
        headers = headers_of(f"{question.ticket}-answer", body)
        status, text = self.tools.resources.get(Webhook).receive(headers, body)
        return "" if status == 200 else text


class Poll(Way):
    via = "webhook"
    by = str(ADA["id"])
    corrects = False
    is_told = False

    @property
    def plugins(self) -> dict[str, Any]:  # type: ignore[override]
        return {"webhook": {"url": self.endpoint.url, "secret": SECRET, "interval": 0.01}}

    def see(self, question: Question) -> None:
        until(self.endpoint.questions)

    def answer(self, question: Question, answer: Answer, **more: Any) -> str:
        asked = {"id": question.ticket, "digest": question.digest}
        self.endpoint.say(asked, answer.value, **more)
        found = until(lambda: self._over(question.ticket))
        if self.endpoint.of("DELETE"):
            return "takes no more answers"
        given = found.answer
        return "" if given.by.id == self.by else str(given.reason)

    def _over(self, ticket: str) -> Question | None:
        found = self.inbox.store.get(ticket)
        is_over = found is not None and found.state is not QuestionState.WAITING
        is_over = is_over and found.answer is not None and found.answer.via == self.via
        return found if is_over or self.endpoint.of("DELETE") else None


WAYS: dict[str, type[Way]] = {
    "store": Way,
    "command line": CommandLine,
    "card": Card,
    "console": WebConsole,
    "callback": Callback,
    "poll": Poll,
}
