"""A console that is served by a real server, beside a host whose calls wait for a person."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import uvicorn
from pydantic import SecretStr

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    Filesystem,
    IdempotencyConfig,
    Outcome,
    Principal,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.ledger import Claim, LedgerEntry, RecordedResult
from toolstile_plugins.console import Console
from toolstile_plugins.console.feed import LONGEST
from toolstile_plugins.inbox import Inbox
from toolstile_plugins.inbox.inbox import wire_of
from toolstile_plugins.ledger import EffectLedger

BOB = Principal("os", "bob")
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'"


@tool(category="write", consequence="high", requires_confirmation=True)
def pay(to: str, amount: int = 1, *, context: ToolContext) -> str:
    """Pay an amount."""
    return f"Paid {amount} to {to}."


@tool(category="write", contained=True, requires_confirmation=True)
def write(path: str, text: str, *, context: ToolContext) -> str:
    """Write a file."""
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write(path, text)
    return f"Wrote {path}."


@tool(category="write", requires_confirmation=True)
def log_in(user: str, password: SecretStr, *, context: ToolContext) -> str:
    """Sign somebody in."""
    return f"{user} has {len(password.get_secret_value())} letters."


@tool(name="evil", category="write", requires_confirmation=True)
def evil(text: str, *, context: ToolContext) -> str:
    """Write markup."""
    return text


def until(happens: Callable[[], Any]) -> Any:
    """Return what a function gives, once it gives something."""
    for _ in range(2000):
        if found := happens():
            return found
        time.sleep(0.005)
    raise AssertionError("It has not happened.")


@tool(category="read", depends_on=["read_file"])
def twice(path: str, *, context: ToolContext) -> str:
    """Read a file twice."""
    for _ in range(2):
        context.call("read_file", {"path": path})
    return "Read."


@tool(idempotency=IdempotencyConfig(scope="global", on_error="unknown"))
def order(item: str, *, context: ToolContext) -> dict[str, str]:
    """Order an item."""
    if item.startswith("lost"):
        raise TimeoutError(f"Nobody answered about {item}.")
    return {"ordered": item}


@tool(idempotency=IdempotencyConfig(scope="global"))
def sign_up(password: SecretStr, *, context: ToolContext) -> dict[str, str]:
    """Sign up, and say with what."""
    return {"with": password.get_secret_value()}


TOOLS = [pay, write, log_in, evil, twice, order, sign_up]


class Desk:
    """A host with an inbox, and a console on a port of its own.

    Attributes:
        tools: An executor whose calls end as pending.
        told: The addresses that were told after the first.
    """

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        port: int = 0,
        record: dict[str, str] | None = None,
        approve_by: str = "call",
        *,
        servers: dict[str, Any] | None = None,
        policies: Sequence[Any] = (),
        more: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.told: list[str] = []
        inbox = {"path": str(folder / "inbox" / "inbox.db"), "wait": "pending", "interval": 0.01}
        self.workspace = workspace = folder / "workspace"
        workspace.mkdir(exist_ok=True)
        (workspace / "old.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
        plugins = {
            "inbox": inbox | settings,
            "vfs": {"root": str(workspace)},
            "console": {"interval": 0.02},
            "record": record or {"file": str(folder / "calls.jsonl")},
            "ledger": {"path": str(folder / "ledger.db")},
            "mcp": {"pins": str(folder / "pins.json"), "wait": 60, "servers": servers or {}},
            **(more or {}),
        }
        given = {"approver": "inbox", "approve_diff": True, "approve_by": approve_by}
        given["plugins"] = plugins
        settings_ = Settings.model_validate(given)
        self.host = stack.enter_context(Host(settings=settings_, tools=TOOLS, policies=policies))
        self.tools: Executor = stack.enter_context(self.host.executor(session_id="s"))
        self.inbox: Any = self.tools.resources.get(Inbox, None)
        self.port = port
        self.console: Any = None
        self.stop: Callable[[], None] = lambda: None
        stack.callback(lambda: self.stop())  # noqa: PLW0108 - the last one
        self.serve_again()

    def serve_again(self) -> None:
        """Serve the console, at first and after `stop`."""
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        if self.console is None:
            self.console = Console(self.host, self.address, tell=self.told.append, person=BOB)
        config = uvicorn.Config(
            self.console, log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        serving = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True
        )
        serving.start()

        def stop() -> None:
            server.should_exit = True
            serving.join(10)

        self.stop = stop

    def ask(self, name: str = "pay", **arguments: Any) -> dict[str, Any]:
        """Have a call wait for a person, and return its question as JSON data."""
        before = {question.ticket for question in self.inbox.waiting()}
        self.tools.dispatch(ToolCall(name, arguments or {"to": "ada"}))
        (question,) = [one for one in self.inbox.waiting() if one.ticket not in before]
        return wire_of(question)

    def call(self, name: str, **arguments: Any) -> Outcome:
        """Make a call that nobody is asked about."""
        return self.tools.dispatch(ToolCall(name, arguments))

    def effects(self) -> list[LedgerEntry]:
        """Return the effects in the ledger."""
        return [*self.tools.resources.get(EffectLedger).store.entries()]

    def feed_of(self, section: str) -> Any:
        """Return the feed of a section."""
        (room,) = [one for one in self.console.routes if len(one.path) > 16]
        found = [one.endpoint for one in room.routes if one.path == f"/events/{section}"]
        return found[0].__self__

    def client(self, **headers: str) -> httpx2.Client:
        """Return a client that sends the console's own origin, and has not signed in."""
        headers = {"origin": self.address, **headers}
        # Longer than a busy console waits between two looks.
        return httpx2.Client(
            base_url=self.address, headers=headers, trust_env=False, timeout=6 * LONGEST
        )


class Visitor:
    """A client that has signed in."""

    def __init__(self, desk: Desk, client: httpx2.Client) -> None:
        self.desk = desk
        self.client = client
        token = desk.console.url.partition("#")[2]
        entered = client.post("/login", data={"token": token})
        self.room = entered.headers["location"].rstrip("/")
        self.set_cookie = entered.headers["set-cookie"]
        page = client.get(f"{self.room}/").text
        found = re.search(r'name="csrf" value="([^"]+)"', page)
        self.csrf = found.group(1) if found else ""

    def get(self, path: str = "/", **headers: str) -> httpx2.Response:
        return self.client.get(f"{self.room}{path}", headers=headers)

    def json(self, path: str = "/") -> Any:
        return self.get(path, accept="application/json").json()

    def post(self, path: str, fields: dict[str, Any], **headers: str) -> httpx2.Response:
        return self.client.post(
            f"{self.room}{path}", data={"csrf": self.csrf, **fields}, headers=headers
        )

    def answer(self, question: dict[str, Any], answer: str, **more: str) -> httpx2.Response:
        fields = {"digest": question["digest"], "answer": answer, **more}
        return self.post(f"/questions/{question['ticket']}", fields)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def desk(tmp_path: Path, stack: ExitStack) -> Desk:
    return Desk(tmp_path, stack)


@pytest.fixture
def visitor(desk: Desk, stack: ExitStack) -> Visitor:
    return Visitor(desk, stack.enter_context(desk.client()))


@pytest.fixture
def links(desk, visitor) -> dict[str, str]:
    """The path of a page of each form, behind the door."""
    answered = desk.ask(to="mia")
    visitor.answer(answered, "deny", reason="No")
    visitor.answer(desk.ask("log_in", user="ada", password="hunter22"), "grant")
    assert visitor.json()["grants"]
    waiting = desk.ask("write", path="old.txt", text="one\n2\nthree\n")
    desk.ask(to="ada")
    for item in ("tea", "lost milk"):
        desk.call("order", item=item)
    desk.tools.dispatch(ToolCall("twice", {"path": "old.txt"}))
    unknown, done = visitor.json("/ledger")["effects"]
    calls = {call["tool"]: call["name"] for call in visitor.json("/calls")["calls"]}
    (session,) = visitor.json("/sessions")["sessions"]
    return {
        "all that wait": "/",
        "a question": f"/questions/{waiting['ticket']}",
        "an answered question": f"/questions/{answered['ticket']}",
        "calls": "/calls",
        "a call with others within": f"/calls/{calls['twice']}",
        "a call with an effect": f"/calls/{calls['order']}",
        "charts": "/charts",
        "sessions": "/sessions",
        "a session": f"/sessions/{session['name']}",
        "the ledger": "/ledger",
        "an unknown effect": f"/ledger/{unknown['hash']}",
        "an effect that is done": f"/ledger/{done['hash']}",
        "rules": "/rules",
    }


@pytest.fixture
def evil_links(desk, visitor) -> dict[str, str]:
    """The path of a page of each form, on which every text is markup."""
    desk.ask("write", path=f"{EVIL.replace('/', '')}.txt", text=f"{EVIL}\n")
    question = desk.inbox.store.get(desk.ask("evil", text=EVIL)["ticket"])
    texts = {"category": EVIL, "consequence": EVIL, "session_id": EVIL, "diff": f"-{EVIL}\n+{EVIL}"}
    evil = replace(
        question,
        ticket="evil",
        tool=EVIL,
        reasons=(EVIL,),
        principal=Principal(EVIL, EVIL),
        **texts,
    )
    desk.inbox.store.add(evil)
    answered = desk.ask("evil", text=f"{EVIL} again")
    visitor.answer(answered, "deny", reason=EVIL)
    with desk.host.executor(session_id=EVIL, principal=Principal(EVIL, EVIL)) as tools:
        tools.dispatch(ToolCall("log_in", {"user": EVIL, "password": EVIL}))
        (granted,) = [one for one in visitor.json()["questions"] if one["tool"] == "log_in"]
        visitor.answer(granted, "grant")
        assert [grant["session"] for grant in visitor.json()["grants"]] == [EVIL]
        tools.dispatch(ToolCall(EVIL, {EVIL: EVIL}, id=EVIL))
        tools.dispatch(ToolCall("order", {"item": f"lost {EVIL}"}, id=EVIL))
    store, now = desk.tools.resources.get(EffectLedger).store, datetime.now(UTC)
    for number, key in enumerate((EVIL, f"{EVIL} done")):
        claim = Claim(key, EVIL, EVIL, f"{number:032x}", EVIL, EVIL, now)
        store.claim(claim, now=now)
        store.mark_unknown(key, claim.effect_id, EVIL)
    result = RecordedResult(EVIL, json.dumps({EVIL: EVIL}).encode(), changes=json.dumps([EVIL]))
    store.finish(key, claim.effect_id, result, None)
    tickets = [question["ticket"] for question in visitor.json("/")["questions"]]
    calls = [call["name"] for call in visitor.json("/calls")["calls"]]
    effects = [effect["hash"] for effect in visitor.json("/ledger")["effects"]]
    listed = visitor.json("/sessions")["sessions"]
    sessions = [session["name"] for session in listed if session["session"] == EVIL]
    sections = {path: path for path in ("/", "/calls", "/sessions", "/ledger")}
    found = {
        f"/{section}/{name}": f"/{section}/{name}"
        for section, names in (
            ("questions", [*tickets, answered["ticket"]]),
            ("calls", calls),
            ("sessions", sessions),
            ("ledger", effects),
        )
        for name in names
    }
    asked = {f"{path}?x": f"{path}?tool={quote(EVIL)}&session={quote(EVIL)}" for path in sections}
    return sections | found | asked


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser of the system, driven by Playwright, whose event loop ends with the module."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("There is no Chromium here (on Debian: chromium)")
    # As long as actions get: a page may take more than 5 seconds beside other tests.
    sync_api.expect.set_options(timeout=10_000)
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, desk: Desk) -> Iterator[Any]:
    """A page of the console that was opened by its address, and asks no other server."""
    context = browser.new_context(viewport={"width": 1000, "height": 800})
    page = context.new_page()
    page.set_default_timeout(10_000)
    asked: list[str] = []
    page.said = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("console", lambda message: page.said.append(message.text))
    page.goto(desk.console.url)
    page.get_by_text("Live", exact=True).wait_for()
    yield page
    context.close()
    assert [url for url in asked if not url.startswith((desk.address, "data:"))] == []
