"""A claim is held as long as its owner lives, whatever clocks say."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolstile_hookspecs import (
    Deadline,
    IdempotencyConfig,
    PromptEvaluationError,
    ToolCall,
    ToolInvoked,
    hookimpl,
    tool,
)
from toolstile_hookspecs.services.ledger import Claim, EffectState
from toolstile_plugins.leases import Process
from toolstile_plugins.ledger import EffectLedger, MemoryStore
from toolstile_plugins.ledger.api import LeaseKeeper
from toolstile_plugins.ledger.lease import Lease
from toolstile_plugins.ledger.stores import sqlite
from toolstile_plugins.ledger.stores.postgres import PostgresStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

pytestmark = pytest.mark.slow

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CLAIM = Claim("k", "act", "hash", "f" * 32, "s", "c", NOW)
OTHER = CLAIM._replace(effect_id="e" * 32)


@contextmanager
def claiming_process(place: str | Path, kind: str, lease: float) -> Iterator[subprocess.Popen]:
    """Run a process that has claimed a key, and would renew it for ever."""
    code = f"""
        import datetime, sys, time
        from toolstile_hookspecs.services.ledger import Claim
        from toolstile_plugins.ledger import EffectLedger
        from toolstile_plugins.ledger.stores.{kind} import {kind.capitalize()}Store
        claim = Claim(*{tuple(CLAIM[:6])!r}, {NOW!r})
        store = {kind.capitalize()}Store({str(place)!r}, lease={lease})
        ledger = EffectLedger(store)
        assert store.claim(claim, now=claim.created_at) is None
        ledger.keeper.hold(claim.effect_id, claim.key)
        print("claimed", flush=True)
        time.sleep(100)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def state_of(store: object) -> EffectState:
    entry = store.get("k")
    assert entry is not None
    return entry.state


class TestSqlite:
    @pytest.mark.slow
    def test_a_killed_processes_claim_is_unknown_at_once_even_unreaped(self, tmp_path):
        path = tmp_path / "ledger.db"
        with claiming_process(path, "sqlite", lease=1000) as process:
            store = SqliteStore(path)
            assert state_of(store) is EffectState.CLAIMED
            os.kill(process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert state_of(store) is EffectState.UNKNOWN
            standing = store.claim(OTHER, now=NOW)
            assert standing is not None
            assert standing.state is EffectState.UNKNOWN
            store.close()

    @pytest.mark.slow
    def test_that_of_a_living_one_is_held_also_when_it_stands_still(self, tmp_path):
        path = tmp_path / "ledger.db"
        with claiming_process(path, "sqlite", lease=0.2) as process:
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(1)
            store = SqliteStore(path, lease=0.2)
            assert state_of(store) is EffectState.CLAIMED
            os.kill(process.pid, signal.SIGCONT)
            store.close()

    def test_a_process_whose_number_was_given_to_another_is_not_that_one(self):
        here = Process.current()
        assert here.lives() is True
        assert here._replace(number=1).lives() is False
        assert here._replace(started="1").lives() is False
        assert here._replace(boot="another").lives() is False
        assert here._replace(space="another").lives() is None
        assert Process.read(str(here)) == here

    @pytest.mark.skipif(sys.platform != "linux", reason="where the kernel tells it")
    def test_a_process_belongs_to_one_running_of_the_machine(self):
        assert Process.current().boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def test_where_the_process_cannot_be_seen_the_lease_counts(self, tmp_path, monkeypatch):
        here = Process.current()
        monkeypatch.setattr(Process, "current", lambda: here._replace(space="container"))
        time_now = 1000.0
        monkeypatch.setattr(sqlite, "monotonic", lambda: time_now)
        store = SqliteStore(tmp_path / "ledger.db", lease=30)
        store.claim(CLAIM, now=NOW)
        monkeypatch.setattr(Process, "current", lambda: here)
        time_now = 1029.0
        assert state_of(store) is EffectState.CLAIMED
        store.renew({CLAIM.effect_id: "k"})
        time_now = 1058.0
        assert state_of(store) is EffectState.CLAIMED
        time_now = 1060.0
        assert state_of(store) is EffectState.UNKNOWN
        # The machine was started anew, as somebody else's identity of it does not tell.
        time_now = 5.0
        monkeypatch.setattr(sqlite, "monotonic", lambda: -10_000.0)
        assert state_of(store) is EffectState.UNKNOWN
        store.close()

    def test_a_lease_outlasts_a_sleep_of_its_machine(self, tmp_path, monkeypatch):
        """A process in another container has slept as well, and goes on with its call."""
        here, real = Process.current(), time.clock_gettime
        with monkeypatch.context() as elsewhere, closing(SqliteStore(tmp_path / "l.db")) as store:
            elsewhere.setattr(Process, "current", lambda: here._replace(space="container"))
            store.claim(CLAIM, now=NOW)
        monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + 3600)
        with closing(SqliteStore(tmp_path / "l.db")) as store:
            assert state_of(store) is EffectState.CLAIMED


@pytest.mark.slow
class TestPostgres:
    def test_a_killed_processes_lease_ends(self, database):
        with claiming_process(database, "postgres", lease=1.0) as process:
            store = PostgresStore(database)
            process.kill()
            assert state_of(store) is EffectState.CLAIMED
            time.sleep(1.5)
            assert state_of(store) is EffectState.UNKNOWN
            store.close()

    def test_a_slow_living_ones_does_not(self, database):
        with claiming_process(database, "postgres", lease=1.0):
            store = PostgresStore(database)
            for _ in range(8):
                time.sleep(0.5)
                assert state_of(store) is EffectState.CLAIMED
            store.close()

    def test_a_server_that_is_away_stops_only_those_that_need_it_and_comes_back(
        self, postgres, database
    ):
        """Eight threads call without a pause while the server is stopped and started."""
        from contextlib import ExitStack

        from .conftest import Bench

        effects: list[int] = []
        over = threading.Event()

        @tool(idempotency=IdempotencyConfig(scope="global"), timeout=None)
        def act(key: int) -> int:
            """Have an effect."""
            effects.append(key)
            return key

        @tool
        def look() -> str:
            """Look at something."""
            return "seen"

        def work(number: int) -> list[tuple[int, bool, str]]:
            told = []
            key = number
            while not over.is_set():
                outcome = bench.tools.dispatch(ToolCall("act", {"key": key}))
                told.append((key, outcome.success, outcome.text))
                assert bench.tools.dispatch(ToolCall("look")).text == "seen"
                key += 4
            return told

        with ExitStack() as stack:
            bench = Bench("sync", PostgresStore(database, lease=5), stack)
            bench.open(act, look)
            with ThreadPoolExecutor(8) as pool:
                # Two threads each share their keys.
                working = [pool.submit(work, number % 4) for number in range(8)]
                try:
                    time.sleep(0.5)
                    postgres.stop()
                    time.sleep(0.5)
                finally:
                    postgres.start()
                time.sleep(1.5)
                over.set()
                told = [each for future in working for each in future.result()]
            failed = [text for _, success, text in told if not success]
            assert any("PostgreSQL on 127.0.0.1 cannot be used" in text for text in failed)
            assert len(set(effects)) == len(effects)
            succeeded = {key for key, success, _ in told if success}
            assert succeeded <= set(effects)
            # What happened without being told of as a success is known to be unknown.
            bench.ledger.keeper.stop()
            states = {each.claim.key: each.state for each in bench.ledger.store.entries()}
            done = sum(state is EffectState.DONE for state in states.values())
            unknown = len(states) - done
            assert len(effects) <= done + unknown
            assert len(succeeded) <= done
            later = bench.tools.dispatch(ToolCall("act", {"key": -1}))
            assert later.success


class Seen:
    """Keeps the events of calls."""

    def __init__(self) -> None:
        self.events: list[ToolInvoked] = []

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.events.append(event)


class TestWaiting:
    @staticmethod
    def slow(begun: threading.Event, release: threading.Event):
        @tool(name="act", idempotency=IdempotencyConfig(scope="global"), timeout=None)
        def act() -> str:
            """Take as long as the test wants."""
            begun.set()
            release.wait(20)
            return "acted"

        return act

    @pytest.fixture
    def running(self, bench) -> Iterator[threading.Event]:
        """Have a call under way; gives what lets it end."""
        begun, release = threading.Event(), threading.Event()
        bench.open(self.slow(begun, release))
        thread = threading.Thread(target=bench.tools.dispatch, args=(ToolCall("act"),))
        thread.start()
        begun.wait(10)
        yield release
        release.set()
        thread.join()

    def test_the_second_gets_the_result_of_the_first(self, bench, running):
        timer = threading.Timer(0.2, running.set)
        timer.start()
        outcome = bench.call("act")
        assert (outcome.text, outcome.event.replayed) == ("acted", True)
        timer.join()

    def test_or_is_told_that_it_is_in_progress(self, bench, running):
        bench.ledger.wait = 0.05
        outcome = bench.call("act")
        assert "already in progress" in outcome.text
        assert "retry" in outcome.text
        assert outcome.event.attributes["ledger.state"] == "in_progress"

    def test_it_waits_no_longer_than_its_deadline(self, bench, running):
        seen = Seen()
        bench.open(self.slow(threading.Event(), running), plugins=(seen,))
        deadline = Deadline.after(0.1)
        with pytest.raises(PromptEvaluationError, match="deadline"):
            bench.dispatch(ToolCall("act", deadline=deadline))
        (event,) = seen.events
        assert event.attributes["ledger.state"] == "in_progress"

    @pytest.mark.parametrize("hours", [-1, 1])
    def test_clocks_that_jump_do_no_harm(self, bench, running, hours):
        bench.clock.move(hours=hours)
        bench.ledger.wait = 0.05
        assert "in progress" in bench.call("act").text
        running.set()
        bench.ledger.wait = 10
        assert bench.call("act").event.replayed
        bench.clock.move(hours=-hours)
        assert bench.call("act").event.replayed

    def test_a_call_that_waited_in_vain_tries_itself(self, bench):
        begun, release = threading.Event(), threading.Event()
        ran: list[int] = []

        @tool(name="act", idempotency=IdempotencyConfig(), timeout=None)
        def act() -> str:
            """Fail the first time, slowly."""
            ran.append(1)
            if len(ran) > 1:
                return "acted"
            begun.set()
            release.wait(20)
            raise ValueError("broken")

        bench.open(act)
        thread = threading.Thread(target=bench.tools.dispatch, args=(ToolCall("act"),))
        thread.start()
        begun.wait(10)
        timer = threading.Timer(0.1, release.set)
        timer.start()
        outcome = bench.call("act")
        assert (outcome.text, outcome.event.replayed) == ("acted", False)
        thread.join()
        timer.join()

    def test_many_on_one_loop_wait_without_holding_it_up(self, bench):
        ran: list[int] = []

        @tool(name="act", idempotency=IdempotencyConfig())
        async def act() -> str:
            """Take a little while."""
            ran.append(1)
            await asyncio.sleep(0.05)
            return "acted"

        bench.open(act)

        async def main() -> list[str]:
            calls = (bench.tools.adispatch(ToolCall("act")) for _ in range(20))
            return [each.text for each in await asyncio.gather(*calls)]

        assert asyncio.run(main()) == ["acted"] * 20
        assert len(ran) == 1


def test_what_cannot_be_written_now_is_written_by_its_own_thread_later(tmp_path):
    from toolstile_hookspecs import LedgerError

    ledger = EffectLedger(SqliteStore(tmp_path / "ledger.db"))
    tried: list[int] = []
    settled = threading.Event()

    def settling() -> None:
        tried.append(1)
        if len(tried) < 3:
            raise LedgerError("not yet")
        settled.set()

    ledger.keeper.settle(settling)
    assert settled.wait(20)
    ledger.shut()


class Leasing(MemoryStore):
    """A store whose claims have to be renewed."""

    lease = 0.03

    def __init__(self) -> None:
        super().__init__()
        self.renewed: list[dict[str, str]] = []
        self.noticed = threading.Event()

    def renew(self, claims):
        self.renewed.append(dict(claims))
        self.noticed.set()


@pytest.mark.parametrize("fails", [False, True])
def test_a_claim_is_renewed_while_its_handler_runs_and_no_longer(fails):
    from contextlib import ExitStack

    from .conftest import Bench

    @tool(idempotency=IdempotencyConfig(), timeout=None)
    def act() -> str:
        """Take as long as it takes to be seen."""
        store.noticed.wait(10)
        if fails:
            raise ValueError("broken")
        return "acted"

    store = Leasing()
    with ExitStack() as stack:
        bench = Bench("sync", store, stack)
        bench.open(act)
        outcome = bench.call("act")
        assert list(store.renewed[0].values()) == [outcome.event.attributes["ledger.key"]]
        # What was on its way when the call ended may still come.
        time.sleep(0.05)
        store.renewed.clear()
        time.sleep(0.2)
        assert store.renewed == []


class Breaking(MemoryStore):
    """A store of somebody's whose errors are not those that the contract names."""

    lease = 0.03

    def __init__(self) -> None:
        super().__init__()
        self.faults = 2
        self.renewed = threading.Event()

    def renew(self, held):
        self._fail()
        self.renewed.set()

    def release(self, key, effect_id):
        self._fail()
        super().release(key, effect_id)

    def _fail(self) -> None:
        if self.faults:
            self.faults -= 1
            raise RuntimeError("its-password was refused")


@pytest.mark.parametrize(("raises", "left"), [(False, []), (True, ["unknown"])])
def test_an_interrupt_of_the_settling_leaves_no_claim_behind(bench, monkeypatch, raises, left):
    """A third Ctrl-C may end a rollback at any line: before the plugin has settled the claim."""
    interrupted = threading.Event()

    def settle(lease, reason):
        interrupted.set()
        raise KeyboardInterrupt

    @tool(idempotency=IdempotencyConfig(scope="global", on_error="unknown"))
    def act() -> str:
        """Act."""
        if raises:
            raise ConnectionResetError
        return "Done."

    class Failing:
        @hookimpl(trylast=True)
        def toolstile_execute(self, tool):
            if not raises:
                raise ValueError("before the handler")

    bench.open(act, plugins=(Failing(),))
    monkeypatch.setattr(Lease, "settle", settle)
    with pytest.raises(KeyboardInterrupt):
        bench.call("act")
    assert interrupted.is_set()
    until = time.monotonic() + 5
    while bench.stored() != left and time.monotonic() < until:
        time.sleep(0.05)
    assert bench.stored() == left


def test_claims_are_renewed_though_the_store_breaks_the_contract(caplog):
    store = Breaking()
    keeper = LeaseKeeper(store)
    keeper.hold(CLAIM.effect_id, "k")
    assert store.renewed.wait(10)
    keeper.stop()
    told = "The ledger's store Breaking has failed (RuntimeError). Repair the store."
    said = [each.getMessage() for each in caplog.records]
    assert said == 2 * [f"{told} The claims of running calls could not be renewed."]


def test_what_could_not_be_written_is_tried_again_though_the_store_breaks_the_contract():
    store = Breaking()
    store.claim(CLAIM, now=NOW)
    keeper = LeaseKeeper(store)
    settled = threading.Event()

    def settle() -> None:
        store.release("k", CLAIM.effect_id)
        settled.set()

    keeper.settle_later(settle)
    assert settled.wait(10)
    keeper.stop()
    assert store.get("k") is None


def test_what_the_store_never_takes_keeps_nothing_else_from_being_written():
    def never() -> None:
        raise RuntimeError("its-password was refused")

    keeper = LeaseKeeper(MemoryStore())
    settled = threading.Event()
    keeper.settle_later(never)
    keeper.settle_later(settled.set)
    assert settled.wait(10)
    keeper.stop()
