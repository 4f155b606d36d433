"""The ledger, and what is committed beside it, holds up no event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    Binding,
    IdempotencyConfig,
    Outcome,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.ledger import EffectLedger, MemoryStore
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

# Only what never comes takes this long.
PATIENCE = 30.0


class Watched(SqliteStore):
    """Notes the threads that its statements run on."""

    threads: set[threading.Thread]

    def _read(self, query: str, *values: Any) -> list[Any]:
        self.__dict__.setdefault("threads", set()).add(threading.current_thread())
        return super()._read(query, *values)

    def _change(self, statement: str, *values: Any) -> int:
        self.__dict__.setdefault("threads", set()).add(threading.current_thread())
        return super()._change(statement, *values)


@tool(idempotency=IdempotencyConfig(scope="global"))
async def charge(text: str, *, fails: bool = False) -> ToolResult[str]:
    """Charge somebody, once."""
    return ToolResult.error("No.") if fails else ToolResult.ok(text)


@tool
async def shop(text: str, *, context: ToolContext) -> ToolResult[str]:
    """Have somebody charged."""
    outcome = await context.acall("charge", {"text": text})
    return ToolResult.ok(str(outcome.result.value))


@pytest.mark.parametrize("name", ["charge", "shop"])
def test_no_statement_runs_on_the_loops_thread(tmp_path: Path, name: str) -> None:
    store = Watched(tmp_path / "ledger.db")
    ledger = EffectLedger(store)
    calls = [
        ToolCall(name, {"text": "x"}),
        ToolCall(name, {"text": "x"}),
        ToolCall("charge", {"text": "y", "fails": True}),
    ]

    async def main(tools: Any) -> list[Outcome]:
        return [await tools.adispatch(each) for each in calls]

    with (
        Host(discover=["ledger"], tools=[charge, shop]) as host,
        host.executor(resources=(Binding.instance(EffectLedger, ledger),)) as tools,
    ):
        outcomes = asyncio.run(main(tools))
        ledger.shut()

    assert [each.text for each in outcomes] == ["x", "x", "No."]
    assert outcomes[1].event.replayed == (name == "charge")
    assert threading.main_thread() not in store.threads


def test_nor_does_what_opens_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []

    class Noted(MemoryStore):
        def __init__(self) -> None:
            made.append(threading.current_thread() is threading.main_thread())
            super().__init__()

    monkeypatch.setattr("toolstile_plugins.ledger.stores.memory.MemoryStore", Noted)
    settings = Settings(plugins={"database": {"memory": True}})
    with (
        Host(discover=["database", "ledger"], settings=settings, tools=[charge]) as host,
        host.executor() as tools,
    ):
        outcome = asyncio.run(tools.adispatch(ToolCall("charge", {"text": "x"})))

    assert outcome.success
    assert made == [False]


class Bookings:
    """A table whose keys are checked at the commit, which waits for others that have the same."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)

    def begin(self) -> None:
        self.connection.execute("BEGIN")

    def commit(self, savepoint: None) -> None:
        self.connection.execute("COMMIT")

    def rollback(self, savepoint: None) -> None:
        self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.connection.close()


@tool(idempotency=IdempotencyConfig(scope="global"))
async def book(
    seat: int, seconds: float, *, fails: bool = False, context: ToolContext
) -> ToolResult[int]:
    """Book a seat, then work."""
    bookings = await context.resources.aget(Bookings)
    insert = "INSERT INTO booking VALUES (%s)"
    await asyncio.to_thread(lambda: bookings.connection.execute(insert, (seat,)))
    booked.set()
    await asyncio.sleep(seconds)
    return ToolResult.error("Not wanted after all.") if fails else ToolResult.ok(seat)


@tool(name="book", idempotency=IdempotencyConfig(scope="global"))
def book_sync(
    seat: int, seconds: float, *, fails: bool = False, context: ToolContext
) -> ToolResult[int]:
    """Book a seat, then work."""
    bookings = context.resources.get(Bookings)
    bookings.connection.execute("INSERT INTO booking VALUES (%s)", (seat,))
    booked.set()
    time.sleep(seconds)
    return ToolResult.error("Not wanted after all.") if fails else ToolResult.ok(seat)


booked = threading.Event()


@pytest.mark.slow
@pytest.mark.parametrize("used", [book, book_sync], ids=["async", "sync"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_commit_in_postgresql_waits_for_another_session_of_the_same_loop(
    database: str, used: Tool[Any, Any], fails: bool
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE booking (seat int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    booked.clear()
    resources = (Binding(Bookings, lambda _: Bookings(database)),)

    async def main(opened: Callable[[], Any]) -> list[Outcome]:
        with opened() as first, opened() as second:
            made = ToolCall("book", {"seat": 1, "seconds": 0.3, "fails": fails})
            working = asyncio.ensure_future(first.adispatch(made))
            assert await asyncio.to_thread(booked.wait, PATIENCE)
            late = await second.adispatch(ToolCall("book", {"seat": 1, "seconds": 0.0}))
            return [late, await working]

    with closing(PostgresStore(database)) as store:
        ledger = Binding.instance(EffectLedger, EffectLedger(store))
        with Host(discover=["ledger"], tools=[used]) as host:
            outcomes = asyncio.run(main(lambda: host.executor(resources=(*resources, ledger))))

    # The seat is booked once, by the one whose commit holds.
    ends = [Status.SUCCEEDED, Status.FAILED] if fails else [Status.COMMIT_FAILED, Status.SUCCEEDED]
    assert [each.status for each in outcomes] == ends
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT seat FROM booking").fetchall() == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("first_begins", [True, False], ids=["within", "one after the other"])
@pytest.mark.parametrize("used", [book, book_sync], ids=["async", "sync"])
@pytest.mark.parametrize("on_loop", [True, False], ids=["loop", "threads"])
def test_two_sessions_in_postgresql_keep_what_both_did(
    database: str, used: Tool[Any, Any], on_loop: bool, first_begins: bool
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE booking (seat int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    booked.clear()
    long = ToolCall("book", {"seat": 1, "seconds": 0.3})
    short = ToolCall("book", {"seat": 2, "seconds": 0.0})
    calls = (long, short) if first_begins else (short, long)
    resources = (Binding(Bookings, lambda _: Bookings(database)),)

    async def both(first: Executor, second: Executor) -> list[Outcome]:
        working = asyncio.ensure_future(first.adispatch(calls[0]))
        assert await asyncio.to_thread(booked.wait, PATIENCE)
        return [await second.adispatch(calls[1]), await working]

    def both_in_threads(first: Executor, second: Executor) -> list[Outcome]:
        with ThreadPoolExecutor() as threads:
            working = threads.submit(first.dispatch, calls[0])
            assert booked.wait(PATIENCE)
            return [second.dispatch(calls[1]), working.result()]

    with (
        closing(PostgresStore(database)) as store,
        Host(discover=["ledger"], tools=[used]) as host,
    ):
        ledger = Binding.instance(EffectLedger, EffectLedger(store))
        opened = [host.executor(resources=(*resources, ledger)) for _ in range(2)]
        with opened[0] as first, opened[1] as second:
            outcomes = (
                asyncio.run(both(first, second)) if on_loop else both_in_threads(first, second)
            )

    assert [each.status for each in outcomes] == [Status.SUCCEEDED] * 2
    with psycopg.connect(database) as connection:
        seats = connection.execute("SELECT seat FROM booking ORDER BY seat").fetchall()
    assert seats == [(1,), (2,)]
