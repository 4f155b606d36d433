"""A bench on which calls of idempotent tools are made, over each store and with each driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import toolstile_plugins.ledger as ledger_plugin
from toolstile import Executor, Host, Session, Settings
from toolstile_hookspecs import (
    Approver,
    Binding,
    MarkdownSection,
    Outcome,
    Prompt,
    Tool,
    ToolCall,
    ToolPolicy,
)
from toolstile_hookspecs.services.ledger import LedgerStore
from toolstile_plugins.ledger import EffectLedger, MemoryStore, lease
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore


@dataclass
class HeldClock:
    """A clock whose wall time moves only when told; the other one goes on."""

    time: datetime = field(default_factory=lambda: datetime(2026, 3, 1, 12, 0, tzinfo=UTC))

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return time.monotonic()

    def move(self, **by: float) -> None:
        self.time += timedelta(**by)


class Bench:
    """A host with the ledger, and one executor after the other over the same store."""

    def __init__(self, driver: str, store: LedgerStore, stack: ExitStack) -> None:
        self.driver = driver
        self.clock = HeldClock()
        self.ledger = EffectLedger(store, clock=self.clock, wait=10)
        self.session = Session(id="s1")
        self.approver: Approver | None = None
        self.approves_diff = False
        self._stack = stack
        stack.callback(self.ledger.shut)

    def open(
        self,
        *tools: Tool[Any, Any],
        plugins: tuple[object, ...] = (),
        policies: tuple[ToolPolicy, ...] = (),
        resources: tuple[Binding[Any], ...] = (),
        session: Session | None = None,
        **options: Any,
    ) -> Executor:
        host = self._stack.enter_context(
            Host(
                discover=False,
                plugins=[ledger_plugin, *plugins],
                policies=policies,
                clock=self.clock,
                approver=self.approver,
                settings=Settings(approve_diff=True) if self.approves_diff else None,
            )
        )
        prompt = Prompt.of("tests", "bench", (MarkdownSection(key="t", title="T", tools=tools),))
        self.tools: Executor = self._stack.enter_context(
            host.executor(
                session=session or self.session,
                prompt=prompt,
                resources=(Binding.instance(EffectLedger, self.ledger), *resources),
                **options,
            )
        )
        return self.tools

    def call(self, name: str, /, **arguments: Any) -> Outcome:
        return self.dispatch(ToolCall(name, arguments))

    def dispatch(self, call: ToolCall) -> Outcome:
        if self.driver == "sync":
            return self.tools.dispatch(call)
        return asyncio.run(self._adispatch(call))

    async def _adispatch(self, call: ToolCall) -> Outcome:
        return await self.tools.adispatch(call)

    def dispatch_all(self, calls: list[ToolCall]) -> list[Any]:
        if self.driver == "sync":
            return self.tools.dispatch_all(calls)
        return asyncio.run(self._adispatch_all(calls))

    async def _adispatch_all(self, calls: list[ToolCall]) -> list[Any]:
        return await self.tools.adispatch_all(calls)

    def states(self) -> list[str]:
        # On an event loop, what became of a claim in a database is written by another thread.
        until = time.monotonic() + 10
        while self.ledger.keeper._late and time.monotonic() < until:
            time.sleep(0.002)
        return self.stored()

    def stored(self) -> list[str]:
        """The entries of the store, those still to be written among them."""
        return [str(each.state) for each in self.ledger.store.entries()]


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LedgerStore]:
    made: LedgerStore
    match request.param:
        case "memory":
            made = MemoryStore()
        case "sqlite":
            made = SqliteStore(tmp_path / "ledger.db")
        case _:
            made = PostgresStore(request.getfixturevalue("database"))
    yield made
    made.close()


@pytest.fixture
def bench(driver: str, store: LedgerStore) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(driver, store, stack)


@pytest.fixture(autouse=True)
def nothing_is_held_after_the_call() -> Iterator[None]:
    yield
    assert ledger_plugin._leases == {}
    assert lease._by_effect == {}
