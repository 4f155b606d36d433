"""A decision of a stored session holds up no event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile_hookspecs import (
    Binding,
    Filesystem,
    IdempotencyConfig,
    Outcome,
    SlicePolicy,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.session_store import Entry, SessionStore
from toolstile_hookspecs.sessions import append_all
from toolstile_plugins.sessions.sqlite import SqliteDecision, SqliteSessions

from .conftest import Note, call, texts


class Watched(SqliteSessions):
    """Notes the threads on which it decides, and reads entries."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.threads: set[threading.Thread] = set()

    @contextmanager
    def deciding(self, session_id: str) -> Generator[SqliteDecision]:
        self.threads.add(threading.current_thread())
        with super().deciding(session_id) as decision:
            yield decision

    def after(self, session_id: str, number: int) -> Sequence[Entry]:
        self.threads.add(threading.current_thread())
        return super().after(session_id, number)


@dataclass(frozen=True)
class Seen:
    """An item of a LOG slice."""

    text: str


@tool(category="write")
async def note(text: str, *, context: ToolContext) -> str:
    """Take a note."""
    context.session[Note].append(Note(text))
    return text


@tool(category="write", idempotency=IdempotencyConfig())
async def pay(text: str, *, context: ToolContext) -> str:
    """Pay once."""
    context.session[Note].append(Note(text))
    return text


@tool(category="write")
async def write(text: str, *, context: ToolContext) -> str:
    """Write a file."""
    context.resources.get(Filesystem).write(f"{text}.txt", text)  # type: ignore[type-abstract]
    return text


@tool(category="write")
async def around(text: str, *, context: ToolContext) -> str:
    """Have another call take part."""
    await context.acall("pay", {"text": text})
    return text


@tool
async def log(text: str, *, context: ToolContext) -> str:
    """Log, and change nothing."""
    context.session[Seen].append(Seen(text))
    raise ValueError(text)


@pytest.mark.parametrize("name", ["note", "pay", "write", "around", "log"])
def test_no_decision_is_made_on_the_loops_thread(hosts, name):
    tools = [note, pay, write, around, log]
    with closing(Watched(hosts.file)) as store:
        bound = Binding.instance(SessionStore, store)  # type: ignore[type-abstract]
        one, two = hosts.executor(*tools, resources=[bound]), hosts.executor(*tools)
        one.session[Seen].register(Seen, append_all, SlicePolicy.LOG)

        async def main() -> list[Outcome]:
            first = await one.adispatch(ToolCall(name, {"text": "a"}))
            # What others have committed is caught up with, too.
            await asyncio.to_thread(call, two, "note", text="other")
            return [first, await one.adispatch(ToolCall(name, {"text": "b"}))]

        store.threads.clear()
        outcomes = asyncio.run(main())
        assert [outcome.success for outcome in outcomes] == [name != "log"] * 2
        assert "other" in texts(one)
        assert store.threads
        assert threading.main_thread() not in store.threads
