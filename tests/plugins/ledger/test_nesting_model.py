"""Trees of nested calls against a model: what ran, what the session has, what is recorded."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard_hookspecs import (
    IdempotencyConfig,
    ToolCall,
    ToolContext,
    ToolResult,
    append_all,
    tool,
)
from toolyard_plugins.ledger import MemoryStore

from .conftest import Bench

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Order:
    text: str


@dataclass(frozen=True)
class Ordering:
    """A call that orders something, once; it fails when it is told to."""

    contained: bool
    item: str
    fails: bool


@dataclass(frozen=True)
class Buying:
    """A call that makes others, and fails then when it is told to."""

    contained: bool
    calls: tuple[Call, ...]
    fails: bool


Call = Ordering | Buying

orderings = st.builds(Ordering, st.booleans(), st.sampled_from("ab"), st.booleans())
calls = st.recursive(
    orderings,
    lambda within: st.builds(
        Buying, st.booleans(), st.lists(within, max_size=3).map(tuple), st.booleans()
    ),
    max_leaves=6,
)


class Model:
    """What is to be expected, call by call."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.outcomes: list[bool] = []
        self.recorded: set[str] = set()
        self.session: set[str] = set()

    def make(self, call: Call) -> bool:
        """Make a call; returns whether it succeeds."""
        session, recorded = set(self.session), set(self.recorded)
        if isinstance(call, Ordering):
            return self._order(call)
        for each in call.calls:
            self.outcomes.append(self.make(each))
        if call.fails:
            stays = {each for each in self.recorded if each[0] != "c"}
            self.session, self.recorded = session, stays | recorded
        return not call.fails

    def _order(self, call: Ordering) -> bool:
        text = told(call)
        if text not in self.recorded:
            self.ran[text] += 1
            if call.fails:
                return False
        self.recorded.add(text)
        self.session.add(text)
        return True


def told(call: Ordering) -> str:
    return f"{'c' if call.contained else 'n'}{call.item}"


class Shop:
    """The calls, made."""

    def __init__(self, driver: str, stack: ExitStack) -> None:
        self.ran: Counter[str] = Counter()
        self.outcomes: list[bool] = []
        self.bench = Bench(driver, MemoryStore(), stack)
        self.bench.session[Order].register(Order, append_all)
        self.bench.open(*map(self._ordering, (True, False)), *map(self._buying, (True, False)))
        # What is told to no call, since what it is told makes it another one.
        self._next: Call

    def make(self, call: Call) -> bool:
        return self.bench.dispatch(ToolCall(*self._told(call))).success

    def orders(self) -> list[Order]:
        return list(self.bench.session[Order].all())

    def recorded(self) -> dict[str, str]:
        """What is recorded, by what was ordered."""
        return {
            entry.result.message[-2:]: entry.result.message
            for entry in self.bench.ledger.store.entries()
            if entry.result is not None
        }

    def _told(self, call: Call) -> tuple[str, dict[str, Any]]:
        self._next = call
        what = "c" if call.contained else "n"
        if isinstance(call, Ordering):
            return f"{what}_order", {"item": call.item}
        return f"{what}_buy", {}

    def _ordering(self, contained: bool) -> Any:
        name = "c_order" if contained else "n_order"

        @tool(name=name, contained=contained, idempotency=IdempotencyConfig(scope="global"))
        def order(item: str, *, context: ToolContext) -> ToolResult[None]:
            """Order something."""
            self.ran[f"{name[0]}{item}"] += 1
            message = f"order {self.ran.total()} of {name[0]}{item}"
            context.session[Order].append(Order(message))
            assert isinstance(self._next, Ordering)
            return (
                ToolResult.error("sold out") if self._next.fails else ToolResult.ok(message=message)
            )

        return order

    def _buying(self, contained: bool) -> Any:
        name = "c_buy" if contained else "n_buy"

        @tool(name=name, contained=contained)
        def buy(*, context: ToolContext) -> None:
            """Make calls."""
            this = self._next
            assert isinstance(this, Buying)
            for each in this.calls:
                self.outcomes.append(context.call(*self._told(each)).success)
            if this.fails:
                raise ValueError("no money")

        @tool(name=name, contained=contained)
        async def abuy(*, context: ToolContext) -> None:
            """Make calls."""
            this = self._next
            assert isinstance(this, Buying)
            for each in this.calls:
                self.outcomes.append((await context.acall(*self._told(each))).success)
            if this.fails:
                raise ValueError("no money")

        return buy if self.bench.driver == "sync" else abuy


@pytest.mark.parametrize("with_driver", ["sync", "async"])
@settings(max_examples=60, deadline=None)
@given(trees=st.lists(calls, min_size=1, max_size=4))
def test_trees_of_calls_have_each_effect_once(with_driver: str, trees: list[Call]) -> None:
    model = Model()
    with ExitStack() as stack:
        shop = Shop(with_driver, stack)
        for tree in trees:
            assert shop.make(tree) == model.make(tree)
            recorded, orders = shop.recorded(), [each.text for each in shop.orders()]
            assert shop.outcomes == model.outcomes
            assert shop.ran == model.ran
            assert recorded.keys() == model.recorded
            assert shop.bench.stored() == ["done"] * len(recorded)
            assert sorted(orders) == sorted(recorded[each] for each in model.session)
