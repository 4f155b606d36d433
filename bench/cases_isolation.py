"""Handlers in processes of their own: a whole call, and what it asks of its host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from measuring import Block, Case, Effort, Probe, Row, compare, timed

from toolstile import Executor, Host
from toolstile_hookspecs import Tool, ToolCall, ToolContext, tool
from toolstile_plugins import isolation

TWICE = 2.0
BARE = [sys.executable, "-c", "import toolstile_hookspecs"]


@dataclass(frozen=True)
class Item:
    """An item of a slice."""

    text: str
    number: int


@tool(isolation="process", timeout=None)
def add_apart(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def read_often(times: int, *, context: ToolContext) -> float:
    """Read a slice often; return the seconds that it took."""
    items = context.session[Item]
    items.append(Item("text", 1))
    started = perf_counter()
    for _ in range(times):
        items.latest()
    return perf_counter() - started


read_here = tool(name="read_here", timeout=None)(read_often)
read_apart = tool(name="read_apart", timeout=None, isolation="process")(read_often)


def measure_isolation(effort: Effort) -> list[Row]:
    """Measure isolated calls, and reads of the session by isolated handlers."""
    bare = Probe("a process that imports the contract", _bare)
    whole = Probe("add in a process of its own", _whole)
    here = Probe("a read of the session by a handler", _reads("read_here"))
    apart = Probe("the same, in a process of its own", _reads("read_apart"))
    return compare([Case(whole, bare, TWICE), Case(apart, here)], effort)


@contextmanager
def _bare() -> Iterator[Block]:
    yield timed(lambda: subprocess.run(BARE, check=True))


@contextmanager
def _opened() -> Iterator[Executor]:
    tools: list[Tool[Any, Any]] = [add_apart, read_here, read_apart]
    with Host(discover=False, plugins=[isolation], tools=tools) as host, host.executor() as opened:
        yield opened


@contextmanager
def _whole() -> Iterator[Block]:
    with _opened() as tools:
        yield timed(lambda: tools.dispatch(ToolCall("add_apart", {"a": 1, "b": 2})))


def _reads(name: str) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        with _opened() as tools:

            def block(times: int) -> float:
                outcome = tools.dispatch(ToolCall(name, {"times": times}))
                assert outcome.success, outcome.text
                seconds: Any = outcome.result.value
                return float(seconds)

            yield block

    return opened
