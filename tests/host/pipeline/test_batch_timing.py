"""The same batch under many timings, drivers and kinds of handlers comes out the same."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolstile import Host, Session
from toolstile_hookspecs import (
    Binding,
    MarkdownSection,
    Prompt,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)

pytestmark = pytest.mark.slow

# Only what never comes takes this long.
PATIENCE = 60.0


@dataclass(frozen=True)
class Left:
    """An item of one slice."""

    text: str


@dataclass(frozen=True)
class Right:
    """An item of another slice."""

    text: str


@dataclass
class Till:
    """Something that one call at a time has."""

    rung: list[int] = field(default_factory=list[int])

    def ring(self, index: int, seen: list[str]) -> None:
        seen.append(f"rung by {self.rung}")
        self.rung.append(index)

    def begin(self) -> list[int]:
        return list(self.rung)

    def commit(self, savepoint: Any) -> None:
        return None

    def rollback(self, savepoint: list[int]) -> None:
        self.rung[:] = savepoint


@dataclass(frozen=True)
class Op:
    """One thing that a handler does."""

    what: str
    kind: type[Any]


@dataclass(frozen=True)
class Nest:
    """A nested call."""

    ops: tuple[Op, ...]
    fails: bool


@dataclass(frozen=True)
class ToolPlan:
    """The work of one call of the batch."""

    tool: str
    ops: tuple[Op | Nest, ...]
    end: str

    @property
    def steps(self) -> int:
        return sum(len(op.ops) if isinstance(op, Nest) else 1 for op in self.ops)

    @property
    def paced(self) -> bool:
        return self.tool in ("contained", "parallel")


WAITING = ("serial", "exclusive", "contained_exclusive")
plain_ops = st.builds(
    Op, st.sampled_from(["read", "append", "bump", "seed", "clear"]), st.sampled_from([Left, Right])
)
nested = st.builds(Nest, st.lists(plain_ops, min_size=1, max_size=2).map(tuple), st.booleans())
plans = st.builds(
    ToolPlan,
    st.sampled_from(["contained", "parallel", "contained", "parallel", *WAITING]),
    st.lists(st.one_of(plain_ops, plain_ops, nested), max_size=3).map(tuple),
    st.sampled_from(["ok", "ok", "ok", "error", "raise"]),
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[tuple[ToolPlan, ...], tuple[tuple[int, ...], ...]]:
    """Draw a batch, and orders in which the steps of its parallel handlers may be made."""
    batch = tuple(draw(st.lists(plans, min_size=2, max_size=4)))
    steps = [index for index, plan in enumerate(batch) if plan.paced for _ in range(plan.steps)]
    orders = st.permutations(steps).map(tuple)
    return batch, tuple(draw(st.lists(orders, min_size=1, max_size=3)))


class HandlerTiming:
    """Lets parallel handlers make their steps in a given order; what runs again runs freely."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self._left = deque(order)
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, index: int) -> Iterator[None]:
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._is_turn(index), PATIENCE)
        assert in_time, f"the batch never let call {index} make its step"
        yield
        self._end()

    async def aturn(self, index: int, act: Any) -> None:
        while not self._is_turn(index):  # noqa: ASYNC110 - the other may be a thread
            await asyncio.sleep(0)
        act()
        self._end()

    def _is_turn(self, index: int) -> bool:
        return self._left[0] == index

    def _end(self) -> None:
        with self._changed:
            self._left.popleft()
            self._changed.notify_all()


class Stage:
    """The tools of one run of a batch, and what their handlers saw."""

    def __init__(self, batch: tuple[ToolPlan, ...], order: tuple[int, ...]) -> None:
        self.batch = batch
        self.pace = HandlerTiming(order)
        self.runs: Counter[int] = Counter()

    def paced(self, index: int) -> bool:
        return self.batch[index].paced and self.runs[index] == 1

    def tools(self, *, is_async: bool) -> list[Tool[Any, Any]]:
        make = self._async_tool if is_async else self._tool
        return [
            make("contained", contained=True),
            make("parallel"),
            make("serial", concurrency="serial"),
            make("exclusive"),
            make("contained_exclusive", contained=True),
            self._async_inner() if is_async else self._inner(),
        ]

    def _tool(self, name: str, **options: Any) -> Tool[Any, Any]:
        @tool(name=name, timeout=None, **options)
        def work(index: int, *, context: ToolContext) -> ToolResult[list[str]]:
            """Do what the batch says."""
            self.runs[index] += 1
            seen: list[str] = []
            if name.endswith("exclusive"):
                context.resources.get(Till).ring(index, seen)
            for place, op in enumerate(self.batch[index].ops):
                if isinstance(op, Nest):
                    told = context.call("inner", {"index": index, "place": place})
                    seen.append(f"{told.status}: {told.text}")
                elif self.paced(index):
                    with self.pace.turn(index):
                        act(op, f"{index}.{place}", context, seen)
                else:
                    act(op, f"{index}.{place}", context, seen)
            return ended(self.batch[index].end, seen)

        return work

    def _async_tool(self, name: str, **options: Any) -> Tool[Any, Any]:
        @tool(name=name, timeout=None, **options)
        async def work(index: int, *, context: ToolContext) -> ToolResult[list[str]]:
            """Do what the batch says."""
            self.runs[index] += 1
            seen: list[str] = []
            if name.endswith("exclusive"):
                (await context.resources.aget(Till)).ring(index, seen)
            for place, op in enumerate(self.batch[index].ops):
                if isinstance(op, Nest):
                    told = await context.acall("inner", {"index": index, "place": place})
                    seen.append(f"{told.status}: {told.text}")
                else:
                    await self._act(index, op, f"{index}.{place}", context, seen)
            return ended(self.batch[index].end, seen)

        return work

    def _inner(self) -> Tool[Any, Any]:
        @tool(name="inner", timeout=None)
        def inner(index: int, place: int, *, context: ToolContext) -> ToolResult[list[str]]:
            """Do what the batch says within another call."""
            nest: Any = self.batch[index].ops[place]
            seen: list[str] = []
            for number, op in enumerate(nest.ops):
                if self.paced(index):
                    with self.pace.turn(index):
                        act(op, f"{index}.{place}.{number}", context, seen)
                else:
                    act(op, f"{index}.{place}.{number}", context, seen)
            return ended("error" if nest.fails else "ok", seen)

        return inner

    def _async_inner(self) -> Tool[Any, Any]:
        @tool(name="inner", timeout=None)
        async def inner(index: int, place: int, *, context: ToolContext) -> ToolResult[list[str]]:
            """Do what the batch says within another call."""
            nest: Any = self.batch[index].ops[place]
            seen: list[str] = []
            for number, op in enumerate(nest.ops):
                await self._act(index, op, f"{index}.{place}.{number}", context, seen)
            return ended("error" if nest.fails else "ok", seen)

        return inner

    async def _act(
        self, index: int, op: Op, text: str, context: ToolContext, seen: list[str]
    ) -> None:
        if self.paced(index):
            await self.pace.aturn(index, lambda: act(op, text, context, seen))
        else:
            act(op, text, context, seen)


def act(op: Op, text: str, context: ToolContext, seen: list[str]) -> None:
    items = context.session[op.kind]
    if op.what == "read":
        seen.append(" ".join(each.text for each in items.all()))
    elif op.what == "append":
        items.append(op.kind(text))
    elif op.what == "bump":
        latest = items.latest()
        items.append(op.kind(f"{latest.text if latest else ''}+"))
    elif op.what == "seed":
        items.seed(op.kind(text))
    else:
        items.clear()


def ended(how: str, seen: list[str]) -> ToolResult[list[str]]:
    if how == "error":
        return ToolResult.error(f"as planned, after {seen}")
    if how == "raise":
        msg = f"as planned, after {seen}"
        raise LookupError(msg)
    return ToolResult.ok(seen)


def run(
    batch: tuple[ToolPlan, ...], order: tuple[int, ...], *, async_driver: bool, async_handlers: bool
) -> tuple[list[Any], list[Any]]:
    """Return what the calls told, and the state after them."""
    tools = Stage(batch, order).tools(is_async=async_handlers)
    section = MarkdownSection(key="tools", title="Tools", tools=tools)
    session = Session()
    session[Left].append(Left("start"))
    till = Till()
    prompt = Prompt.of("tests", "batch", (section,))
    bindings = (Binding.instance(Till, till),)
    calls = [ToolCall(plan.tool, {"index": index}) for index, plan in enumerate(batch)]
    with (
        Host(discover=False) as host,
        host.executor(session=session, prompt=prompt, resources=bindings) as executor,
    ):
        if async_driver:
            outcomes = asyncio.run(executor.adispatch_all(calls))
        else:
            outcomes = executor.dispatch_all(calls)
    told = [(each.status, each.text, each.event.reruns) for each in outcomes]  # type: ignore[union-attr]
    return told, [*(list(session[kind].all()) for kind in (Left, Right)), till.rung]


@pytest.mark.usefixtures("quiet")
@settings(max_examples=60, deadline=None)
@given(drawn=batches())
@pytest.mark.long
def test_what_comes_out_does_not_depend_on_timing(
    drawn: tuple[tuple[ToolPlan, ...], tuple[tuple[int, ...], ...]],
) -> None:
    batch, orders = drawn
    in_call_order = tuple(sorted(orders[0]))

    expected = run(batch, in_call_order, async_driver=False, async_handlers=False)

    for order in orders:
        for async_driver in (False, True):
            for async_handlers in (False, True):
                found = run(batch, order, async_driver=async_driver, async_handlers=async_handlers)
                assert found == expected, (order, async_driver, async_handlers)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Leave the failures that a batch plans out of the test's own output."""
    caplog.set_level("CRITICAL", logger="toolstile")
