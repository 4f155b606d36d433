"""A host with an inbox, and tools that need a person."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile.testing import FakeClock
from toolstile_hookspecs import Answer, Filesystem, Principal, ToolContext, tool
from toolstile_hookspecs.services.approval_store import Question
from toolstile_plugins.inbox import Inbox

BOB = Principal("os", "bob")
PAID: list[str] = []
KEY = "a key of the tests, 32 letters long"


@tool(category="write", consequence="high", requires_confirmation=True)
def pay(to: str, amount: int = 1, *, context: ToolContext) -> str:
    """Pay an amount."""
    PAID.append(to)
    context.session[str].append(f"{to} {amount}")
    return f"Paid {amount} to {to}."


@tool(category="write", contained=True, requires_confirmation=True)
def generate(path: str, *, context: ToolContext) -> str:
    """Write what a program prints into a file; it prints something else each time."""
    printed = subprocess.run(
        [sys.executable, "-c", "import uuid; print(uuid.uuid4())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files: Filesystem = context.resources.get(Filesystem)  # type: ignore[type-abstract]
    files.write(path, printed)
    return printed


class House:
    """Hosts that share an inbox, a ledger and stored sessions in one folder.

    Where it has a file `url`, they share the PostgreSQL database of that address.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self._stack = stack

    def host(
        self,
        *tools: Any,
        stored: bool = False,
        keyed: bool = False,
        by_default: bool = False,
        top: Any = None,
        **inbox: Any,
    ) -> Host:
        """Return an open host; with a key it takes the tokens of others, as one that stores.

        By default nothing is configured that is not needed, a key neither.
        """
        inbox = {"path": str(self.folder / "inbox" / "inbox.db"), "interval": 0.005, **inbox}
        plugins: dict[str, Any] = {"inbox": inbox}
        given: dict[str, Any] = {"approver": "inbox", **(top or {})}
        state, url = str(self.folder / "state" / "state.db"), self.folder / "url"
        if stored and url.exists():
            inbox["key"] = str(Path(inbox.pop("path")).with_suffix(".key"))
            plugins |= {"database": {"url": url.read_text()}}
            given |= {} if by_default else {"approval_key": KEY}
        elif stored:
            plugins |= {"sessions": {"path": state}, "ledger": {"path": state}}
        if (stored or keyed) and "database" not in plugins and not by_default:
            given |= {"approval_key": KEY, "approval_spent": state}
        given["plugins"] = {**plugins, **given.get("plugins", {})}
        host = Host(settings=Settings.model_validate(given), tools=tools or [pay], clock=self.clock)
        return self._stack.enter_context(host)

    def tools(self, host: Host, **arguments: Any) -> Executor:
        """Return an open executor."""
        return self._stack.enter_context(host.executor(**{"session_id": "s", **arguments}))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    PAID.clear()
    with ExitStack() as stack:
        yield House(tmp_path, stack)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def shared(house: House, request: pytest.FixtureRequest) -> House:
    """Hosts that share stored sessions, in a file or a database."""
    if request.param == "postgres":
        (house.folder / "url").write_text(request.getfixturevalue("database"))
    return house


def inbox_of(tools: Executor) -> Inbox:
    inbox: Inbox = tools.resources.get(Inbox)
    return inbox


def only(inbox: Inbox) -> Question:
    (question,) = inbox.waiting()
    return question


def say(inbox: Inbox, answer: Answer = Answer.APPROVED, **more: Any) -> Question:
    """Answer the one question that waits."""
    return inbox.answer(only(inbox).ticket, answer, BOB, **{"via": "test", **more})


def until(happens: Callable[[], Any]) -> Any:
    """Return what a function gives, once it gives something."""
    for _ in range(4000):
        if found := happens():
            return found
        time.sleep(0.005)
    raise AssertionError("It has not happened.")


async def asked(inbox: Inbox, count: int = 1) -> list[Question]:
    """Return the questions that wait, once there are so many."""
    for _ in range(4000):
        if len(waiting := inbox.waiting()) >= count:
            return waiting
        await asyncio.sleep(0.005)
    raise AssertionError("Nobody is asked.")
