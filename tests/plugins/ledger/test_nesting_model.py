"""Trees of nested calls against a model: what ran, what the sessions have, what is recorded."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from toolstile import Session
from toolstile_hookspecs import (
    IdempotencyConfig,
    ToolCall,
    ToolContext,
    ToolResult,
    append_all,
    tool,
)
from toolstile_plugins.ledger import MemoryStore

from .conftest import Bench

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Order:
    text: str


@dataclass(frozen=True)
class Call:
    """A call that makes others, and fails then when it is told to.

    Args:
        contained: Whether nothing of it outlives its being rolled back.
        key: What it does once; None where it does not matter how often.
        calls: The calls that it makes.
        fails: Whether it fails.
    """

    contained: bool
    key: str | None
    calls: tuple[Call, ...]
    fails: bool

    @property
    def name(self) -> str:
        """The key by which it is done once."""
        return f"{'c' if self.contained else 'n'}{self.key}"


orderings = st.builds(
    Call, st.booleans(), st.sampled_from("ab"), st.just(()), st.sampled_from([False, False, True])
)
calls = st.recursive(
    orderings,
    lambda within: st.builds(
        Call,
        st.booleans(),
        st.none() | st.sampled_from("xyz"),
        st.lists(within, min_size=1, max_size=3).map(tuple),
        st.sampled_from([False, False, True]),
    ),
    max_leaves=8,
)


class Effect:
    """The effect of a call."""

    def __init__(self, call: Call) -> None:
        self.contained = call.contained
        self.changes: list[str | Effect] = []


class State:
    """The effects that a session holds."""

    def __init__(self, orders: list[str], held: set[Effect]) -> None:
        self.orders = orders
        self.held = held

    def take(self, effect: Effect) -> None:
        """Have what an effect changed, unless it is held already."""
        if effect in self.held:
            return
        for each in effect.changes:
            if isinstance(each, Effect):
                self.take(each)
            else:
                self.orders.append(each)
        self.held.add(effect)


class Model:
    """The model of the ledger, call by call."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.outcomes: list[bool] = []
        self.recorded: dict[str, Effect] = {}
        self.under_way: set[str] = set()
        self.sessions = [State([], set()), State([], set())]

    def make(self, call: Call, session: int, into: list[str | Effect] | None = None) -> bool:
        """Make a call; returns whether it succeeds.

        Args:
            call: The call.
            session: Where it is made.
            into: What the call around it has changed so far.
        """
        state = self.sessions[session]
        changes: list[str | Effect] = [] if into is None else into
        if call.key is None:
            return self._run(call, session, changes)
        if call.name in self.under_way:
            return False
        effect = self.recorded.get(call.name)
        if effect is None:
            return self._run_once(call, session, changes)
        if effect not in state.held:
            changes.append(effect)
            state.take(effect)
        return True

    def _run_once(self, call: Call, session: int, into: list[str | Effect]) -> bool:
        effect = Effect(call)
        self.under_way.add(call.name)
        succeeds = self._run(call, session, effect.changes)
        self.under_way.remove(call.name)
        if succeeds:
            self.recorded[call.name] = effect
            self.sessions[session].held.add(effect)
            into.append(effect)
        return succeeds

    def _run(self, call: Call, session: int, into: list[str | Effect]) -> bool:
        state, recorded = self.sessions[session], set(self.recorded.values())
        before, changed = State(list(state.orders), set(state.held)), len(into)
        if call.key is not None:
            self.ran[call.name] += 1
            self._order(f"{self.ran.total()} {call.name}", state, into)
        for each in call.calls:
            self.outcomes.append(self.make(each, session, into))
        if call.fails:
            self.sessions[session] = before
            del into[changed:]
            self._put_back({each for each in self.recorded.values() if each not in recorded})
        return not call.fails

    def _order(self, text: str, state: State, into: list[str | Effect]) -> None:
        state.orders.append(text)
        into.append(text)

    def _put_back(self, effects: set[Effect]) -> None:
        """Let what contained calls did not have happened, also in the records of others."""
        gone = {each for each in effects if each.contained}
        self.recorded = {name: each for name, each in self.recorded.items() if each not in gone}
        for each in effects - gone:
            each.changes = [
                change
                for change in each.changes
                if not (isinstance(change, Effect) and change in gone)
            ]


class Shop:
    """The calls, made."""

    def __init__(self, driver: str, stack: ExitStack) -> None:
        self.ran: Counter[str] = Counter()
        self.outcomes: list[bool] = []
        self.bench = Bench(driver, MemoryStore(), stack)
        tools = [
            self._tool(contained, once) for contained in (True, False) for once in (True, False)
        ]
        self.sessions = [Session(id=f"s{number}") for number in range(2)]
        for each in self.sessions:
            each[Order].register(Order, append_all)
        self.executors = [self.bench.open(*tools, session=each) for each in self.sessions]
        # What is told to no call, since what it is told makes it another one.
        self._next: Call

    def make(self, call: Call, session: int) -> bool:
        self.bench.tools = self.executors[session]
        return self.bench.dispatch(ToolCall(*self._told(call))).success

    def orders(self) -> list[list[str]]:
        """The effects that each session holds."""
        return [[order.text for order in each[Order].all()] for each in self.sessions]

    def recorded(self) -> set[str]:
        """The recorded effects."""
        entries = self.bench.ledger.store.entries()
        return {entry.result.message for entry in entries if entry.result is not None}

    def _told(self, call: Call) -> tuple[str, dict[str, Any]]:
        self._next = call
        what = "c" if call.contained else "n"
        return (f"{what}_buy", {}) if call.key is None else (f"{what}_once", {"item": call.key})

    def _tool(self, contained: bool, once: bool) -> Any:
        if not once:
            return self._buying(contained)
        name = "c_once" if contained else "n_once"
        config = IdempotencyConfig(scope="global")

        def begin(context: ToolContext) -> Call:
            call = self._next
            self.ran[call.name] += 1
            context.session[Order].append(Order(f"{self.ran.total()} {call.name}"))
            return call

        @tool(name=name, contained=contained, idempotency=config)
        def order(item: str, *, context: ToolContext) -> ToolResult[None]:
            """Order something."""
            call = begin(context)
            self._make_calls(call, context)
            return ended(call)

        @tool(name=name, contained=contained, idempotency=config)
        async def aorder(item: str, *, context: ToolContext) -> ToolResult[None]:
            """Order something."""
            call = begin(context)
            await self._amake_calls(call, context)
            return ended(call)

        return order if self.bench.driver == "sync" else aorder

    def _buying(self, contained: bool) -> Any:
        name = "c_buy" if contained else "n_buy"

        @tool(name=name, contained=contained)
        def buy(*, context: ToolContext) -> ToolResult[None]:
            """Make calls."""
            call = self._next
            self._make_calls(call, context)
            return ended(call)

        @tool(name=name, contained=contained)
        async def abuy(*, context: ToolContext) -> ToolResult[None]:
            """Make calls."""
            call = self._next
            await self._amake_calls(call, context)
            return ended(call)

        return buy if self.bench.driver == "sync" else abuy

    def _make_calls(self, call: Call, context: ToolContext) -> None:
        for each in call.calls:
            self.outcomes.append(context.call(*self._told(each)).success)

    async def _amake_calls(self, call: Call, context: ToolContext) -> None:
        for each in call.calls:
            self.outcomes.append((await context.acall(*self._told(each))).success)


def ended(call: Call) -> ToolResult[None]:
    return ToolResult.error("sold out") if call.fails else ToolResult.ok(message=call.name)


PAYS = Call(contained=True, key="a", calls=(), fails=False)
CHECKS_OUT = Call(contained=False, key="x", calls=(PAYS,), fails=False)
IS_PUT_BACK = Call(contained=False, key=None, calls=(CHECKS_OUT,), fails=True)


@pytest.mark.parametrize("with_driver", ["sync", "async"])
@example(trees=[(PAYS, 0), (CHECKS_OUT, 1), (CHECKS_OUT, 0)])
@example(trees=[(CHECKS_OUT, 0), (PAYS, 1), (CHECKS_OUT, 1)])
@example(trees=[(IS_PUT_BACK, 0), (CHECKS_OUT, 0), (PAYS, 0)])
@settings(max_examples=30, deadline=None)
@given(trees=st.lists(st.tuples(calls, st.integers(0, 1)), min_size=1, max_size=6))
def test_trees_of_calls_have_each_effect_once(
    with_driver: str, trees: list[tuple[Call, int]]
) -> None:
    model = Model()
    with ExitStack() as stack:
        shop = Shop(with_driver, stack)
        for tree, session in trees:
            assert shop.make(tree, session) == model.make(tree, session)
            assert shop.outcomes == model.outcomes
            assert shop.ran == model.ran
            assert shop.recorded() == model.recorded.keys()
            assert shop.bench.stored() == ["done"] * len(model.recorded)
            assert shop.orders() == [each.orders for each in model.sessions]
