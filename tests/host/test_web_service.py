"""Fifty sessions at once in a web application, all on one SQLite file: nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from toolstile import Host
from toolstile_hookspecs import Binding, ToolCall, ToolContext, tool

pytestmark = pytest.mark.slow

SESSIONS = 50
# All write to one file, and none of them queues: some wait long.
BUSY = 60.0


class Notes:
    """A table in a SQLite file, of which each call is a transaction."""

    def __init__(self, file: Path) -> None:
        self.connection = sqlite3.connect(
            file, timeout=BUSY, isolation_level=None, check_same_thread=False
        )

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self, savepoint: None) -> None:
        threads.add(threading.get_ident())
        self.connection.execute("COMMIT")

    def rollback(self, savepoint: None) -> None:
        threads.add(threading.get_ident())
        self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.connection.close()


threads: set[int] = set()


@tool
async def add(note: str, *, fails: bool = False, context: ToolContext) -> str:
    """Add a note."""
    notes = await context.resources.aget(Notes)
    await asyncio.to_thread(notes.connection.execute, "INSERT INTO note VALUES (?)", (note,))
    if fails:
        message = "Not wanted after all."
        raise ValueError(message)
    return note


def application(file: Path, loops: list[int]) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        loops.append(threading.get_ident())
        with ExitStack() as stack:
            host = stack.enter_context(Host(discover=False, tools=[add]))
            bound = (Binding(Notes, lambda _: Notes(file)),)
            app.state.sessions = [
                stack.enter_context(host.executor(resources=bound)) for _ in range(SESSIONS)
            ]
            yield

    async def answer(request: Request) -> JSONResponse:
        tools = request.app.state.sessions[int(request.path_params["session"])]
        outcome = await tools.adispatch(ToolCall("add", await request.body()))
        return JSONResponse({"status": outcome.status, "text": outcome.text})

    return Starlette(routes=[Route("/{session:int}", answer, methods=["POST"])], lifespan=lifespan)


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        (port,) = {each.getsockname()[1] for each in server.servers[0].sockets}
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


async def visit(client: httpx2.AsyncClient, session: int, until: float) -> list[tuple[str, str]]:
    """Add notes, each fifth of which fails; return what became of each."""
    told: list[tuple[str, str]] = []
    while time.monotonic() < until:
        note = f"{session}-{len(told)}"
        made = {"note": note, "fails": len(told) % 5 == 4}
        answer = await client.post(f"/{session}", json=made)
        told.append((note, answer.json()["status"]))
    return told


async def visits(url: str, seconds: float) -> list[tuple[str, str]]:
    until = time.monotonic() + seconds
    async with httpx2.AsyncClient(base_url=url, timeout=2 * BUSY) as client:
        each = await asyncio.gather(*(visit(client, n, until) for n in range(SESSIONS)))
    return [told for one in each for told in one]


@pytest.mark.parametrize("seconds", [2, pytest.param(60, marks=pytest.mark.long)])
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_all_that_was_told_to_be_kept_is_and_nothing_else(
    tmp_path: Path, journal: str, seconds: float
) -> None:
    file, loops = tmp_path / "notes.db", list[int]()
    threads.clear()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.execute("CREATE TABLE note (text)")
    with served(application(file, loops)) as url:
        told = asyncio.run(visits(url, seconds))
    with closing(sqlite3.connect(file)) as connection:
        kept = sorted(text for (text,) in connection.execute("SELECT text FROM note"))

    # SQLite lets those that wait begin in any order: some may wait for longer than their timeout.
    assert {status for _, status in told} <= {"succeeded", "error", "timed_out"}
    assert kept == sorted(note for note, status in told if status == "succeeded")
    assert len({note.partition("-")[0] for note in kept}) == SESSIONS
    assert threads
    assert threads.isdisjoint(loops)
