"""A tool says itself what became of a call that ended without a record."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from tests.plugins.ledger.conftest import Bench

import toolstile_plugins.ledger as ledger_plugin
from toolstile_hookspecs import (
    DefinitionError,
    EffectUnknownError,
    IdempotencyConfig,
    Reconciled,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_hookspecs.services.ledger import EffectState, LedgerEntry
from toolstile_plugins.ledger import EffectLedger, MemoryStore, effect_key
from toolstile_plugins.ledger.reconcile import LONGEST, reconciler_of
from toolstile_plugins.ledger.settings import LedgerSettings

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Order:
    item: str
    number: int


class Shop:
    """A service that takes orders; its answer can be lost."""

    def __init__(self) -> None:
        self.orders: dict[str, Order] = {}
        self.handled = 0
        self.asked: list[tuple[Any, str]] = []
        self.loses_the_answer = True
        self.says: Reconciled | Exception | None = None

    def find(self, params: Any, key: str, context: ToolContext) -> Reconciled:
        assert context.clock is not None
        self.asked.append((params, key))
        if isinstance(self.says, Exception):
            raise self.says
        if self.says is not None:
            return self.says
        found = self.orders.get(key)
        return Reconciled.did_not() if found is None else Reconciled.happened(found)

    async def find_later(self, params: Any, key: str, context: ToolContext) -> Reconciled:
        await asyncio.sleep(0)
        return self.find(params, key, context)

    def tool(self, reconcile: Any = None, **config: Any) -> Tool[Any, Any]:
        @tool(idempotency=IdempotencyConfig(reconcile=reconcile or self.find, **config))
        def order(item: str, *, context: ToolContext) -> Order:
            """Order something."""
            key = effect_key(context)
            assert key is not None
            self.handled += 1
            if item != "nothing":
                self.orders[key] = Order(item, self.handled)
            if self.loses_the_answer:
                self.loses_the_answer = False
                raise EffectUnknownError("The line was cut.")
            return self.orders.get(key, Order(item, 0))

        return order


@pytest.fixture
def shop() -> Shop:
    return Shop()


def entry_of(bench: Bench) -> LedgerEntry:
    (entry,) = bench.ledger.store.entries()
    return entry


# --- in code ---


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_call_that_meets_an_unknown_effect_gets_its_result(bench, shop, way):
    bench.open(shop.tool(shop.find if way == "sync" else shop.find_later))
    assert not bench.call("order", item="tea").success
    assert bench.states() == ["unknown"]

    outcome = bench.call("order", item="tea")

    assert outcome.result.value == Order("tea", 1)
    assert outcome.event.replayed
    assert outcome.event.attributes["ledger.reconciled"] == "happened"
    assert shop.handled == 1
    ((params, key),) = shop.asked
    assert (params.item, key) == ("tea", outcome.event.attributes["ledger.key"])
    assert bench.call("order", item="tea").result.value == Order("tea", 1)
    assert len(shop.asked) == 1


@pytest.mark.parametrize("jump", [-48, 0, 48])
def test_a_call_whose_effect_did_not_happen_runs_whatever_the_clock_says(bench, shop, jump):
    bench.open(shop.tool())
    bench.call("order", item="nothing")
    bench.clock.move(hours=jump)

    outcome = bench.call("order", item="nothing")

    assert (outcome.success, outcome.event.replayed, shop.handled) == (True, False, 2)
    assert outcome.event.attributes["ledger.reconciled"] == "did_not"


def test_a_result_that_was_found_answers_for_its_time_also_where_the_clock_was_set_back(
    bench, shop
):
    bench.open(shop.tool(ttl=HOUR))
    bench.call("order", item="tea")
    bench.clock.move(hours=-48)
    assert bench.call("order", item="tea").event.replayed
    bench.clock.move(hours=48, minutes=59)
    assert bench.call("order", item="tea").event.replayed
    assert shop.handled == 1


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (Reconciled.cannot_tell("The shop is closed."), "The shop is closed."),
        (Reconciled.happened("no order"), "its result does not fit"),
        (Reconciled.happened(ToolResult.error("Sold out.")), "a failure as its result (Sold out.)"),
        (ValueError("secret"), "Asking failed (ValueError)"),
        ("happened", "gave str, no Reconciled"),
    ],
    ids=["cannot tell", "misfit", "failure", "exception", "no finding"],
)
def test_an_effect_stays_unknown_as_it_was_where_nothing_can_be_told(
    bench, shop, says, told, caplog
):
    bench.open(shop.tool())
    bench.call("order", item="tea")
    before = entry_of(bench)
    shop.says = says

    outcome = bench.call("order", item="tea")

    assert "order was not run" in outcome.text
    assert "Retry later: the tool is asked about it." in outcome.text
    assert outcome.event.attributes["ledger.state"] == "unknown"
    assert entry_of(bench)._replace(owner=None) == before._replace(owner=None)
    assert told in caplog.text
    assert "secret" not in caplog.text


def test_it_is_not_asked_again_before_its_time(bench, shop):
    bench.open(shop.tool())
    bench.call("order", item="tea")
    shop.says = Reconciled.cannot_tell("Not yet.")
    for _ in range(3):
        assert not bench.call("order", item="tea").success
    assert len(shop.asked) == 1


@pytest.mark.parametrize(("age", "pause"), [(-9, 5), (0, 5), (60, 60), (10**8, LONGEST)])
def test_the_pause_grows_with_the_age_of_the_effect(shop, age, pause):
    with closing(MemoryStore()) as store:
        ledger = EffectLedger(store)
        reconciler = reconciler_of(shop.tool(), ledger, LedgerSettings())
    assert reconciler is not None
    now = ledger._clock.now()
    claim = ledger_plugin.lease.Claim("k", "order", "", "0" * 32, "", "", now)
    entry = LedgerEntry(claim, EffectState.UNKNOWN)
    assert reconciler.pause_after(entry, now + timedelta(seconds=age)) == pause


def test_one_that_does_not_answer_is_given_up(bench, shop):
    async def for_ever(params: Any, key: str, context: ToolContext) -> Reconciled:
        await asyncio.Event().wait()
        raise AssertionError

    bench.ledger.wait = 0.05
    bench.open(shop.tool(for_ever))
    bench.call("order", item="tea")
    outcome = bench.call("order", item="tea")
    assert outcome.event.attributes["ledger.reconciled"] == "cannot_tell"
    assert bench.states() == ["unknown"]


def test_a_call_that_is_given_up_while_it_asks_leaves_the_effect_to_the_next(bench, shop):
    begun = asyncio.Event()

    async def for_ever(params: Any, key: str, context: ToolContext) -> Reconciled:
        if shop.says is not None:
            return shop.find(params, key, context)
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def give_up() -> None:
        asking = asyncio.create_task(bench.tools.adispatch(ToolCall("order", {"item": "tea"})))
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    bench.open(shop.tool(for_ever))
    bench.call("order", item="tea")
    asyncio.run(give_up())
    assert bench.states() == ["unknown"]
    shop.says = Reconciled.happened(Order("tea", 1))
    assert bench.call("order", item="tea").result.value == Order("tea", 1)


def test_nobody_asks_while_a_handler_that_was_given_up_runs_on(bench, shop):
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @tool(idempotency=IdempotencyConfig(reconcile=shop.find), timeout=0.05)
    def slow() -> int:
        """Do something slowly."""
        begun.set()
        go_on.wait(10)
        ended.set()
        return 7

    bench.ledger.wait = 0.05
    bench.open(slow)
    assert bench.call("slow").event.status == "timed_out"
    assert "already in progress" in bench.call("slow").text
    assert (bench.states(), shop.asked) == (["claimed"], [])

    go_on.set()
    assert ended.wait(10)
    shop.says = Reconciled.happened(7)
    bench.ledger.wait = 10
    assert bench.call("slow").result.value == 7


def test_the_params_are_kept_until_the_record_is(bench, shop):
    shop.loses_the_answer = False
    seen: list[bytes | None] = []

    @tool(idempotency=IdempotencyConfig(reconcile=shop.find))
    def look(item: str) -> str:
        """Look at the ledger."""
        seen.append(entry_of(bench).claim.params)
        return item

    bench.open(look)
    bench.call("look", item="tea")
    assert (seen, entry_of(bench).claim.params) == ([b'{"item":"tea"}'], None)


def test_a_secret_is_kept_nowhere_so_it_is_refused(shop):
    with pytest.raises(DefinitionError, match=r"they hold a secret; let a resource hold it"):

        @tool(idempotency=IdempotencyConfig(reconcile=shop.find))
        def sign_in(password: SecretStr) -> str:
            """Sign in."""
            return "in"


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        ({"reconcile": lambda params: None}, "reconcile cannot be called with params, key and"),
        ({"reconcile": print, "on_unknown": "retry"}, "only goes with on_unknown='fail'"),
    ],
)
def test_a_reconcile_that_cannot_be_used_is_refused(config, fault):
    with pytest.raises(DefinitionError, match=fault):

        @tool(idempotency=IdempotencyConfig(**config))
        def order(item: str) -> str:
            """Order something."""
            return item


def test_a_nested_call_is_found_out_about_too(bench, shop):
    @tool()
    def buy(item: str, *, context: ToolContext) -> str:
        """Buy something."""
        return context.call("order", {"item": item}).text

    bench.open(shop.tool(scope="global"), buy)
    bench.call("order", item="tea")
    assert bench.call("buy", item="tea").success
    assert (shop.handled, len(shop.asked)) == (1, 1)
