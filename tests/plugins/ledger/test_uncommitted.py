"""Nested calls: who hears of their effects before the calls around them have ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Executor, Session
from toolstile_hookspecs import (
    IdempotencyConfig,
    LedgerError,
    Outcome,
    Status,
    ToolCall,
    ToolContext,
    append_all,
    hookimpl,
    tool,
)
from toolstile_plugins.ledger.lease import Lease

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Order:
    item: str


class Shop:
    """An idempotent tool, and tools that call it and wait until they are told to end."""

    def __init__(self, bench: Any, **options: Any) -> None:
        self.bench = bench
        self.ran: list[str] = []
        self.look: Callable[[ToolContext], object] = lambda context: None
        self.reached: dict[str, threading.Event] = {}
        self.go: dict[str, threading.Event] = {}
        config = IdempotencyConfig(scope="global")

        @tool(idempotency=config, **options)
        def order(item: str, *, context: ToolContext) -> str:
            """Order something."""
            self.ran.append(item)
            self.look(context)
            context.session[Order].append(Order(item))
            return f"{item} is ordered"

        @tool(**options)
        async def abuy(items: list[str], stop: str, fail: bool, *, context: ToolContext) -> str:
            """Order things, and wait."""
            texts = [(await context.acall("order", {"item": item})).text for item in items]
            await asyncio.to_thread(self.wait, stop)
            if fail:
                raise ValueError("no money")
            return "; ".join(texts)

        @tool(**options)
        def buy(items: list[str], stop: str, fail: bool, *, context: ToolContext) -> str:
            """Order things, and wait."""
            texts = [context.call("order", {"item": item}).text for item in items]
            self.wait(stop)
            if fail:
                raise ValueError("no money")
            return "; ".join(texts)

        @tool(**options)
        def late(item: str, *, context: ToolContext) -> str:
            """Wait, and order then."""
            self.wait("late")
            return context.call("order", {"item": item}).text

        @tool(**options)
        async def alate(item: str, *, context: ToolContext) -> str:
            """Wait, and order then."""
            await asyncio.to_thread(self.wait, "late")
            return (await context.acall("order", {"item": item})).text

        @tool(**options)
        def twice(item: str, *, context: ToolContext) -> str:
            """Have somebody buy it, and order it once more."""
            bought = context.call("buy", {"items": [item], "stop": "", "fail": False}).text
            return f"{bought}; {context.call('order', {'item': item}).text}"

        @tool(**options)
        async def atwice(item: str, *, context: ToolContext) -> str:
            """Have somebody buy it, and order it once more."""
            arguments = {"items": [item], "stop": "", "fail": False}
            bought = (await context.acall("abuy", arguments)).text
            return f"{bought}; {(await context.acall('order', {'item': item})).text}"

        self.tools = (order, buy, abuy, late, alate, twice, atwice)
        bench.session[Order].register(Order, append_all)
        bench.open(*self.tools)

    def wait(self, stop: str) -> None:
        if stop in self.go:
            self.reached[stop].set()
            assert self.go[stop].wait(5)

    def call(self, name: str, executor: Executor | None = None, **arguments: Any) -> Outcome:
        a = "" if self.bench.driver == "sync" or name == "order" else "a"
        call = ToolCall(a + name, arguments)
        executor = executor or self.bench.tools
        if self.bench.driver == "sync":
            return executor.dispatch(call)

        async def main() -> Outcome:
            return await executor.adispatch(call)

        return asyncio.run(main())

    @contextmanager
    def meanwhile(self, stop: str, call: Callable[[], Outcome]):
        """Make a call beside, which has come to its wait within and ends after the block."""
        self.reached[stop], self.go[stop] = threading.Event(), threading.Event()
        ended: list[Outcome] = []
        thread = threading.Thread(target=lambda: ended.append(call()), daemon=True)
        thread.start()
        assert self.reached[stop].wait(5)
        try:
            yield ended
        finally:
            self.go[stop].set()
            thread.join(5)

    def orders(self) -> list[Order]:
        return list(self.bench.session[Order].all())

    def beside(self, call: Callable[[], Outcome]) -> tuple[threading.Thread, list[Outcome]]:
        ended: list[Outcome] = []
        thread = threading.Thread(target=lambda: ended.append(call()), daemon=True)
        thread.start()
        return thread, ended


class TestContained:
    """Their changes are put back with the calls around them, and so are the ledger's entries."""

    @pytest.fixture
    def shop(self, bench):
        return Shop(bench, contained=True)

    def test_they_are_recorded_when_what_they_changed_is_kept(self, shop):
        buying = lambda: shop.call("buy", items=["tea"], stop="buyer", fail=False)  # noqa: E731
        with shop.meanwhile("buyer", buying) as ended:
            assert shop.bench.states() == ["claimed"]
        assert ended[0].success
        assert shop.bench.states() == ["done"]
        assert shop.call("order", item="tea").event.replayed
        assert shop.orders() == [Order("tea")]

    @pytest.mark.parametrize("same", [True, False], ids=["the same session", "another session"])
    def test_nobody_hears_of_what_is_put_back(self, shop, same):
        buyer = shop.bench.tools
        if not same:
            shop.bench.session = Session(id="s2")
            shop.bench.session[Order].register(Order, append_all)
            shop.bench.open(*shop.tools)
        arguments = {"items": ["tea"], "stop": "buyer", "fail": True}
        with shop.meanwhile("buyer", lambda: shop.call("buy", buyer, **arguments)) as bought:
            thread, ordered = shop.beside(lambda: shop.call("order", item="tea"))
            thread.join(0.2)
            assert ordered == []
        thread.join(5)
        assert not bought[0].success
        assert ordered[0].success
        assert not ordered[0].event.replayed
        assert shop.orders() == [Order("tea")]
        assert shop.ran == ["tea", "tea"]

    def test_the_caller_that_sees_the_changes_gets_the_result_again(self, shop):
        outcome = shop.call("buy", items=["tea", "tea"], stop="", fail=False)
        assert outcome.text == "tea is ordered; tea is ordered"
        assert shop.ran == ["tea"]
        assert shop.orders() == [Order("tea")]

    def test_so_does_the_caller_of_the_caller(self, shop):
        assert shop.call("twice", item="tea").text == "tea is ordered; tea is ordered"
        assert shop.ran == ["tea"]
        assert shop.orders() == [Order("tea")]

    def test_one_that_cannot_be_recorded_refuses_the_call_around_it(self, shop):
        store = shop.bench.ledger.store

        def refuse(*args: Any) -> bool:
            raise LedgerError("The disk is full.")

        finish, store.finish = store.finish, refuse
        refused = shop.call("buy", items=["tea"], stop="", fail=False)
        assert not refused.success
        assert "The disk is full." in refused.text
        store.finish = finish
        assert shop.bench.states() == []
        assert shop.orders() == []
        assert shop.call("buy", items=["tea"], stop="", fail=False).success
        assert shop.orders() == [Order("tea")]

    def test_one_whose_claim_was_taken_away_refuses_the_call_around_it(self, shop):
        store = shop.bench.ledger.store
        finish, store.finish = store.finish, lambda *args: False
        refused = shop.call("buy", items=["tea"], stop="", fail=False)
        store.finish = finish
        assert not refused.success
        assert "its claim was taken away meanwhile" in refused.text
        assert shop.orders() == []

    def test_one_that_conflicts_with_its_caller_at_the_last_moment_gives_its_key_back(
        self, shop, monkeypatch
    ):
        callers: list[ToolContext] = []
        join = Lease.join

        def join_late(lease: Lease) -> Any:
            joined = join(lease)
            if not callers:
                callers.append(lease.context.parent)
                callers[0].session[Order].append(Order("milk"))
            return joined

        shop.look = lambda context: context.session[Order].latest()
        monkeypatch.setattr(Lease, "join", join_late)
        bought = shop.call("buy", items=["tea"], stop="", fail=False)
        assert bought.success
        assert bought.text.endswith("then retry.")
        assert shop.bench.states() == []
        assert not shop.call("order", item="tea").event.replayed
        assert shop.call("order", item="tea").event.replayed
        assert shop.orders() == [Order("milk"), Order("tea")]

    def test_a_direct_write_does_not_come_between_its_record_and_the_session(self, shop):
        store, finish = shop.bench.ledger.store, shop.bench.ledger.store.finish
        writing = threading.Thread(
            target=lambda: shop.bench.session[Order].append(Order("milk")), daemon=True
        )

        def finish_late(*args: Any) -> bool:
            store.finish = finish
            finished = finish(*args)
            writing.start()
            writing.join(0.05)
            assert writing.is_alive()
            return finished

        shop.look, store.finish = lambda context: context.session[Order].latest(), finish_late
        assert shop.call("order", item="tea").success
        writing.join()
        assert shop.call("order", item="tea").event.replayed
        assert shop.orders() == [Order("tea"), Order("milk")]

    def test_one_whose_record_changes_the_session_gives_its_key_back(self, shop):
        store, finish = shop.bench.ledger.store, shop.bench.ledger.store.finish

        def finish_badly(*args: Any) -> bool:
            store.finish = finish
            shop.bench.session[Order].append(Order("milk"))
            return finish(*args)

        store.finish = finish_badly
        refused = shop.call("order", item="tea")
        assert not refused.success
        assert "has changed its session meanwhile" in refused.text
        assert shop.bench.states() == []
        assert shop.orders() == [Order("milk")]


class TestNotContained:
    """Their effects outside stay done, whatever becomes of the calls around them."""

    @pytest.fixture
    def shop(self, bench):
        return Shop(bench)

    def test_another_session_gets_the_result_and_the_changes_at_once(self, shop):
        buyer = shop.bench.tools
        shop.bench.session = Session(id="s2")
        shop.bench.session[Order].register(Order, append_all)
        shop.bench.open(*shop.tools)
        arguments = {"items": ["tea"], "stop": "buyer", "fail": True}
        with shop.meanwhile("buyer", lambda: shop.call("buy", buyer, **arguments)):
            assert shop.call("order", item="tea").event.replayed
            assert shop.orders() == [Order("tea")]

    @pytest.mark.parametrize("fail", [True, False], ids=["it is put back", "it is kept"])
    def test_the_session_has_the_changes_once_whatever_becomes_of_the_caller(self, shop, fail):
        buying = lambda: shop.call("buy", items=["tea"], stop="buyer", fail=fail)  # noqa: E731
        with shop.meanwhile("buyer", buying):
            thread, ordered = shop.beside(lambda: shop.call("order", item="tea"))
            thread.join(0.2)
            assert ordered == []
        thread.join(5)
        assert ordered[0].event.replayed
        assert shop.ran == ["tea"]
        assert shop.orders() == [Order("tea")]

    def test_a_nested_hit_on_them_is_told_at_once_that_they_are_under_way(self, shop):
        buying = lambda: shop.call("buy", items=["tea"], stop="buyer", fail=False)  # noqa: E731
        with shop.meanwhile("buyer", buying):
            outcome = shop.call("buy", items=["tea"], stop="", fail=False)
            assert "already in progress" in outcome.text
        assert shop.orders() == [Order("tea")]

    def test_a_caller_that_began_before_they_were_committed_changes_nothing_again(self, shop):
        with shop.meanwhile("late", lambda: shop.call("late", item="tea")) as ended:
            assert shop.call("buy", items=["tea"], stop="", fail=False).success
        assert ended[0].text == "tea is ordered"
        assert shop.ran == ["tea"]
        assert shop.orders() == [Order("tea")]

    def test_two_callers_beside_one_another_do_not_both_carry_it_over(self, shop):
        assert shop.call("order", item="tea").success
        shop.bench.session = Session(id="s2")
        shop.bench.session[Order].register(Order, append_all)
        shop.bench.open(*shop.tools)
        buying = lambda: shop.call("buy", items=["tea"], stop="buyer", fail=False)  # noqa: E731
        with shop.meanwhile("buyer", buying) as ended:
            assert shop.call("buy", items=["tea"], stop="", fail=False).success
        assert ended[0].status is Status.CONFLICT
        assert shop.orders() == [Order("tea")]
        assert shop.ran == ["tea"]


@pytest.mark.parametrize("contained", [True, False])
def test_calls_side_by_side_within_one_do_not_both_change_the_session(bench, contained):
    shop = Shop(bench, contained=contained)

    events: dict[str, asyncio.Event] = {}

    @tool(contained=contained)
    async def second(*, context: ToolContext) -> str:
        """Order when another call has ended."""
        events["begun"].set()
        await events["ended"].wait()
        return (await context.acall("order", {"item": "tea"})).text

    @tool(contained=contained)
    async def both(*, context: ToolContext) -> list[bool]:
        """Buy while another call has begun that orders the same afterwards."""
        events.update(begun=asyncio.Event(), ended=asyncio.Event())
        later = asyncio.ensure_future(context.acall("second"))
        await events["begun"].wait()
        first = await context.acall("abuy", {"items": ["tea"], "stop": "", "fail": False})
        events["ended"].set()
        return [first.success, (await later).success]

    bench.open(*shop.tools, both, second)
    assert bench.call("both").result.value == [True, contained]
    assert shop.orders() == [Order("tea")]
    assert shop.ran == ["tea"]


class Refusing:
    """A participant that fails when the ledger has recorded the call already."""

    decides = True

    def prepare(self) -> None:
        raise OSError("no room")

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class RefusingOnce:
    def __init__(self) -> None:
        self.left = [Refusing()]

    @hookimpl(trylast=True)
    def toolstile_snapshot(self) -> Refusing | None:
        return self.left.pop() if self.left else None


@pytest.mark.parametrize("contained", [True, False])
def test_nobody_is_answered_with_what_is_being_put_back(bench, contained):
    shop = Shop(bench, contained=contained)
    bench.open(*shop.tools, plugins=(RefusingOnce(),))
    beside: list[tuple[threading.Thread, list[Outcome]]] = []

    def slowly(settle: Callable[..., bool]) -> Callable[..., bool]:
        def settle_slowly(*args: Any) -> bool:
            if not beside:
                beside.append(shop.beside(lambda: shop.call("order", item="tea")))
                beside[0][0].join(0.2)
            return settle(*args)

        return settle_slowly

    store = bench.ledger.store
    store.release, store.mark_unknown = slowly(store.release), slowly(store.mark_unknown)
    assert not shop.call("order", item="tea").success
    bench.states()
    beside[0][0].join(5)
    (ordered,) = beside[0][1]
    assert ordered.success == contained
    assert not ordered.event.replayed
    assert shop.orders() == ([Order("tea")] if contained else [])
    assert bench.states() == (["done"] if contained else ["unknown"])
