"""Limits that several sessions share, counted in memory or in the file of stored sessions."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile.testing import FakeClock
from toolstile_hookspecs import (
    Binding,
    ConfigurationError,
    PolicyDecision,
    PolicyStoreLocation,
    Principal,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.counter import Counter, Reservation
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.policies import QuotaPolicy, RateLimitPolicy
from toolstile_plugins.sessions.counter import MemoryCounter
from toolstile_plugins.sessions.sqlite import SqliteCounter, SqliteSessions

ADA, BOB = Principal("test", "ada"), Principal("test", "bob")


@tool(contained=True)
def ask() -> str:
    """Ask."""
    return "answer"


class Refusing:
    """A policy that reserves in the counter, asked for in every way, and then refuses."""

    name = "refusing"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        wanted: Any = Counter
        counter: Counter = context.resources.get(wanted, default=None)
        moment = context.clock.now()
        assert counter.reserve("own", 1, 9, None, "own", now=moment).granted
        assert counter.reserve("own", 1, 9, None, id="named", now=moment).granted
        assert counter.read("own", now=moment) == 2
        assert context.resources.get(wanted).database == counter.database
        return PolicyDecision.deny("Never.")


class Hosts:
    """Hosts on one file, or each by itself in memory."""

    def __init__(self, file: Path | None, stack: ExitStack) -> None:
        self.clock = FakeClock()
        self._file = file
        self._stack = stack

    def open(self, *policies: Any, **options: Any) -> Host:
        settings = Settings.model_validate({"plugins": {"sessions": {"path": self._file}}})
        if self._file is None:
            settings = Settings()
        return self._stack.enter_context(
            Host(
                settings=settings,
                discover=["sessions"],
                tools=[ask],
                policies=policies,
                clock=self.clock,
                **options,
            )
        )


@pytest.fixture(params=["memory", "file"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(None if request.param == "memory" else tmp_path / "state.db", stack)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(tmp_path / "state.db", stack)


def passes(executor: Executor, times: int = 1) -> list[bool]:
    return [executor.dispatch(ToolCall("ask")).success for _ in range(times)]


@pytest.mark.parametrize("session_id", [None, "s"])
def test_all_sessions_share_a_global_quota(hosts, session_id):
    host = hosts.open(QuotaPolicy(max_calls=3, scope="global", name="q"))
    with host.executor(session_id=session_id) as one, host.executor() as other:
        assert passes(one, 2) == [True, True]
        assert passes(other, 2) == [True, False]
        assert one.dispatch(ToolCall("ask")).text.startswith("Quota exceeded: 3 of 3 calls are")


def test_hosts_on_one_file_share_it(stored):
    quota = QuotaPolicy(max_calls=3, scope="global", name="q")
    one, other = (stored.open(quota).executor() for _ in range(2))
    assert passes(one, 2) + passes(other, 2) + passes(one) == [True] * 3 + [False] * 2


def test_places_are_taken_in_one_order_whatever_the_order_of_the_rules():
    class Noting(MemoryCounter):
        def reserve(self, key: str, *asked: Any, **named: Any) -> Reservation:
            taken.append(key)
            return super().reserve(key, *asked, **named)

    orders = []
    for names in ("ab", "ba"):
        taken: list[str] = []
        rules = [QuotaPolicy(name=name, max_calls=9, scope="global") for name in names]
        counter = Binding.instance(Counter, Noting())
        with Host(tools=[ask], policies=rules, resources=[counter]) as host:
            passes(host.executor())
        orders.append(taken)
    assert orders[0] == orders[1]
    assert len(orders[0]) == 2


def test_each_principal_has_a_rate_of_its_own(hosts):
    rate = RateLimitPolicy(max_calls=2, window=10, scope="principal", name="r")
    host = hosts.open(rate)
    ada, again, bob, nobody = (host.executor(principal=who) for who in (ADA, ADA, BOB, None))
    assert passes(ada) == [True]
    hosts.clock.advance(4)
    assert passes(again) == [True]
    assert again.dispatch(ToolCall("ask")).text == (
        "Rate limit exceeded: 2 calls of ask in the last 10 seconds, 2 are allowed. Wait 6 "
        "seconds, then retry."
    )
    assert passes(bob, 3) == passes(nobody, 3) == [True, True, False]
    hosts.clock.advance(6)
    assert passes(ada, 2) == [True, False]


@pytest.mark.parametrize("session_id", [None, "s"])
def test_a_refusal_by_one_rule_leaves_nothing_of_the_others(hosts, session_id):
    quota = QuotaPolicy(max_calls=1, per_tool={"ask": 5}, scope="global", name="q")
    refusing = hosts.open(quota, Refusing()).executor(session_id=session_id)
    for _ in range(3):
        assert refusing.dispatch(ToolCall("ask")).text == "Never."
    counter: Any = refusing.resources.get(Counter)
    assert counter.read("own", now=hosts.clock.now()) == 0
    for key in ("*", "ask"):
        shared = f'["q", "global", null, "{key}"]'
        assert counter.read(shared, now=hosts.clock.now()) == 0


def test_a_quota_that_one_of_two_numbers_denies_counts_in_neither(hosts):
    quota = QuotaPolicy(max_calls=9, per_tool={"ask": 1}, scope="global", name="q")
    executor = hosts.open(quota).executor()
    assert passes(executor, 4) == [True, False, False, False]
    counter: Any = executor.resources.get(Counter)
    assert counter.read('["q", "global", null, "*"]', now=hosts.clock.now()) == 1


def test_dry_runs_and_replays_take_no_places(hosts, tmp_path):
    quota = QuotaPolicy(max_calls=2, scope="global", name="q")
    host = hosts.open(quota)
    real = host.executor()
    assert passes(real) == [True]
    copied = PolicyStoreLocation(tmp_path / "apart")
    anew = PolicyStoreLocation(tmp_path / "anew", anew=True)
    assert passes(host.executor(dry_run=True), 2) == [True, False]
    assert passes(host.executor(kept_apart=copied), 2) == [True, False]
    assert passes(host.executor(kept_apart=anew), 3) == [True, True, False]
    assert passes(real, 2) == [True, False]


def test_a_dry_run_takes_no_places_of_its_session(hosts):
    host = hosts.open(QuotaPolicy(max_calls=2, name="q"))
    with host.executor(session_id="s") as real:
        assert passes(real) == [True]
        with host.executor(session=real.session, dry_run=True) as dry:
            assert passes(dry, 2) == [True, False]
        assert passes(real, 2) == [True, False]


def test_an_event_loop_does_not_wait_for_the_file(stored):
    executor = stored.open(QuotaPolicy(max_calls=20, scope="global", name="q")).executor()

    async def ask_often() -> list[Any]:
        return await asyncio.gather(*[executor.adispatch(ToolCall("ask")) for _ in range(30)])

    outcomes = asyncio.run(ask_often())
    assert sum(outcome.success for outcome in outcomes) == 20
    assert {outcome.status for outcome in outcomes} == {Status.SUCCEEDED, Status.DENIED}


def test_without_a_counter_a_shared_limit_denies():
    quota = QuotaPolicy(max_calls=2, scope="global", name="q")
    with Host(discover=False, tools=[ask], policies=[quota]) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("ask")).status is Status.DENIED


def test_a_counter_of_the_applications_own_is_used():
    counter, quota = MemoryCounter(), QuotaPolicy(max_calls=2, scope="global", name="q")
    own = {Counter: counter}
    for passed in ([True, True], [False, False]):
        with Host(discover=False, tools=[ask], policies=[quota], resources=own) as host:
            assert passes(host.executor(), 2) == passed


class Elsewhere(MemoryCounter):
    database = "elsewhere.db"  # type: ignore[assignment]


def test_a_counter_in_another_database_than_the_sessions_is_refused(stored):
    bound = [Binding.instance(Counter, Elsewhere())]  # type: ignore[type-abstract]
    with pytest.raises(
        ConfigurationError, match=r"not in elsewhere\.db\. Give the counter the same store"
    ):
        stored.open(resources=bound)


def test_a_counter_of_an_executor_in_another_database_denies(stored, caplog):
    host = stored.open(QuotaPolicy(max_calls=2, scope="global", name="q"))
    with host.executor(session_id="s", resources={Counter: Elsewhere()}) as tools:
        outcome = tools.dispatch(ToolCall("ask"))
    assert outcome.status is Status.DENIED
    assert "counted elsewhere than its session is kept" in outcome.text
    assert "elsewhere.db" in caplog.text


class ByItself(MemoryCounter):
    """A counter that would open the file of the sessions by itself, and then wait for it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.database = str(file)  # type: ignore[assignment]


class Within(ByItself):
    """One that writes down what it is asked, in the transaction of the sessions' store."""

    def __init__(self, store: SqliteSessions) -> None:
        super().__init__(store.path)
        self.store = store

    def reserve(self, *asked: Any, **named: Any) -> Reservation:
        with self.store.file.writing() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS asked (id TEXT)")
            connection.execute("INSERT INTO asked VALUES (?)", (asked[4],))
        return super().reserve(*asked, **named)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSessions]:
    with closing(SqliteSessions(tmp_path / "state.db")) as store:
        yield store


def test_a_counter_with_a_connection_of_its_own_to_the_sessions_is_refused(stored, store):
    for counter in (ByItself(store.path), SqliteCounter(store)):
        bound = [Binding.instance(Counter, counter)]  # type: ignore[type-abstract]
        with pytest.raises(ConfigurationError, match=r"Give the counter the same store"):
            stored.open(resources=bound)


def test_a_counter_of_an_executor_with_a_connection_of_its_own_denies_at_once(stored, store):
    host = stored.open(QuotaPolicy(max_calls=2, scope="global", name="q"))
    with host.executor(session_id="s", resources={Counter: ByItself(store.path)}) as tools:
        outcome = tools.dispatch(ToolCall("ask"))
    assert outcome.status is Status.DENIED
    assert "counted elsewhere than its session is kept" in outcome.text


def test_a_strangers_counter_counts_in_the_transaction_of_the_store(stored, store):
    quota = QuotaPolicy(max_calls=2, scope="global", name="q")
    bound = [
        Binding.instance(SessionStore, store),  # type: ignore[type-abstract]
        Binding.instance(Counter, Within(store)),  # type: ignore[type-abstract]
    ]
    host = stored.open(quota, resources=bound)
    with host.executor(session_id="s") as tools:
        assert passes(tools, 3) == [True, True, False]
    # What the refused call wrote down is gone with the decision in which it was to be admitted.
    assert store.file.read("SELECT count(*) FROM asked") == [(2,)]


def test_a_store_of_the_application_brings_the_counter_along(stored, store):
    quota = QuotaPolicy(max_calls=2, scope="global", name="q")
    bound = [Binding.instance(SessionStore, store)]  # type: ignore[type-abstract]
    host = stored.open(quota, resources=bound)
    with host.executor(session_id="s") as tools:
        assert passes(tools, 3) == [True, True, False]
    assert SqliteCounter(store).read('["q", "global", null, "*"]', now=stored.clock.now()) == 2


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_right_after_a_reservation_leaves_nothing_counted(times: int) -> None:
    class Interrupted(MemoryCounter):
        left = times

        def reserve(self, *asked: Any, **named: Any) -> Reservation:
            answer = super().reserve(*asked, **named)
            while self.left:
                self.left -= 1
                signal.raise_signal(signal.SIGINT)
            return answer

    wanted: Any = Counter
    counter = Interrupted()
    host = Host(
        discover=False,
        tools=[ask],
        policies=[QuotaPolicy(max_calls=1, scope="global")],
        resources=[Binding.instance(wanted, counter)],
    )
    with host, host.executor() as tools:
        with pytest.raises(KeyboardInterrupt):
            tools.dispatch(ToolCall("ask", {}))
        assert tools.dispatch(ToolCall("ask", {})).success
        assert not tools.dispatch(ToolCall("ask", {})).success
