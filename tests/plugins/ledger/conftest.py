"""A bench on which calls of idempotent tools are made, over each store and with each driver."""

from __future__ import annotations

import asyncio
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
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
from toolstile_plugins.ledger import EffectLedger, MemoryStore, participant
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

_databases = itertools.count(1)


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
        while self.ledger.leases._late and time.monotonic() < until:
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
    assert ledger_plugin._holdings == {}
    assert participant._by_effect == {}


def binaries() -> Path:
    """Return where the newest installed server is, or skip the test."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: float(path.parent.parent.name),
    )
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    if on_path is None:
        pytest.skip("No PostgreSQL server is installed (on Debian: apt-get install postgresql).")
    return Path(on_path).parent


class Server:
    """A PostgreSQL server of the tests' own, in a directory of its own, on a free port."""

    def __init__(self) -> None:
        self._bin = binaries()
        # Not pytest's own: the server's user has to get there.
        self._folder = Path(tempfile.mkdtemp(prefix="toolstile-postgres-"))
        self._user: str | None = None
        if os.geteuid() == 0:
            # It refuses to run as root.
            self._user = "postgres"
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._do("initdb", "-D", "data", "-A", "trust", "-U", "toolstile", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://toolstile@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off "
            f"-c max_connections=200 -c unix_socket_directories={self._folder}"
        )
        self._do("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._do("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    def make(self, name: str) -> str:
        """Make a database; returns its connection string."""
        self._do("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "toolstile", name)
        return f"postgresql://toolstile@127.0.0.1:{self.port}/{name}"

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _do(self, command: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / command, *arguments],
            cwd=self._folder,
            user=self._user,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def database(postgres: Server) -> str:
    """Return the connection string of an empty database."""
    return postgres.make(f"test_{next(_databases)}")
