"""The lag of an event loop: how late it is for others while 50 sessions write to one database."""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import httpx2
from measuring import Effort, Row
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from toolstile import Host, Settings
from toolstile_hookspecs import Binding, IdempotencyConfig, Tool, ToolCall, ToolContext, tool

SESSIONS: Final = 50
THINKING: Final = 0.1
"""Seconds for which a client thinks between two requests."""
TICK: Final = 0.001
LONGER: Final = 30
"""Times the seconds of a case: the figure is that of one tick in a thousand."""
BUSY: Final = 30.0

Answer = Callable[[int, bytes], Awaitable[bytes]]


class Notes:
    """A table in a SQLite file, of which each call is a transaction."""

    def __init__(self, file: Path) -> None:
        self.connection = sqlite3.connect(
            file, timeout=BUSY, isolation_level=None, check_same_thread=False
        )

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def add(self, text: str) -> int:
        return self.connection.execute("INSERT INTO note VALUES (?)", (text,)).rowcount

    def commit(self, savepoint: None) -> None:  # noqa: ARG002 - the protocol's
        self.connection.execute("COMMIT")

    def rollback(self, savepoint: None) -> None:  # noqa: ARG002 - the protocol's
        self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.connection.close()


def add(text: str, *, context: ToolContext) -> int:
    """Add a note."""
    return context.resources.get(Notes).add(text)


def measure_loop(effort: Effort) -> list[Row]:
    """Measure the same application without a host, with one, and with a ledger, too."""
    ways = {
        "without a host": _bare,
        "Toolstile alone": lambda folder: _hosted(folder, tool(add), Host(discover=False)),
        "Toolstile with the SQLite ledger": lambda folder: _hosted(
            folder, tool(idempotency=IdempotencyConfig())(add), _recording(folder)
        ),
    }
    seconds = effort.seconds * LONGER
    return [_row(name, asyncio.run(_lags(opened, seconds))) for name, opened in ways.items()]


def _row(name: str, lags: list[float]) -> Row:
    late = sorted(lags)[int(len(lags) * 0.999)]
    case = f"lag of the loop, one tick in 1,000, {SESSIONS} sessions: {name}"
    return Row(case, None, min(lags), statistics.median(lags), late * 1e3, unit="ms")


async def _lags(opened: Callable[[Path], object], seconds: float) -> list[float]:
    lags: list[float] = []
    with tempfile.TemporaryDirectory() as folder, _database(Path(folder)), ExitStack() as stack:
        answer: Answer = stack.enter_context(opened(Path(folder)))  # type: ignore[arg-type]
        transport = httpx2.ASGITransport(_application(answer))
        async with httpx2.AsyncClient(transport=transport, base_url="http://bench") as client:
            # The first calls open what the others use.
            await asyncio.gather(*(_visit(client, n, 0.0) for n in range(SESSIONS)))
            until = perf_counter() + seconds
            visits = (_visit(client, n, until) for n in range(SESSIONS))
            await asyncio.gather(_tick(lags, until), *visits)
    return lags


async def _tick(lags: list[float], until: float) -> None:
    while (started := perf_counter()) < until:
        await asyncio.sleep(TICK)
        lags.append(perf_counter() - started - TICK)


async def _visit(client: httpx2.AsyncClient, session: int, until: float) -> None:
    number = 0
    while number == 0 or perf_counter() < until:
        number += 1
        answer = await client.post(f"/{session}", json={"text": f"{session}-{number}"})
        assert answer.text == "1", answer.text
        await asyncio.sleep(THINKING)


def _application(answer: Answer) -> Starlette:
    async def respond(request: Request) -> Response:
        session = int(request.path_params["session"])
        return Response(await answer(session, await request.body()))

    return Starlette(routes=[Route("/{session:int}", respond, methods=["POST"])])


@contextmanager
def _database(folder: Path) -> Iterator[None]:
    with closing(sqlite3.connect(folder / "notes.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE note (text)")
        yield


@contextmanager
def _bare(folder: Path) -> Iterator[Answer]:
    reader, writer = TypeAdapter(dict[str, str]), TypeAdapter(int)
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(Notes(folder / "notes.db"))) for _ in range(SESSIONS)]

        def add_one(session: int, text: str) -> int:
            opened[session].begin()
            added = opened[session].add(text)
            opened[session].commit(None)
            return added

        async def answer(session: int, body: bytes) -> bytes:
            text = reader.validate_json(body)["text"]
            return writer.dump_json(await asyncio.to_thread(add_one, session, text))

        yield answer


@contextmanager
def _hosted(folder: Path, used: Tool[object, int], host: Host) -> Iterator[Answer]:
    bound = (Binding(Notes, lambda _: Notes(folder / "notes.db")),)
    with host, ExitStack() as stack:
        opened = [
            stack.enter_context(host.executor(tools=[used], resources=bound))
            for _ in range(SESSIONS)
        ]

        async def answer(session: int, body: bytes) -> bytes:
            outcome = await opened[session].adispatch(ToolCall("add", body))
            return outcome.text.encode()

        yield answer


def _recording(folder: Path) -> Host:
    path = str(folder / "ledger.db")
    settings = Settings(durability="process", plugins={"ledger": {"path": path}})
    return Host(discover=["ledger"], settings=settings)
