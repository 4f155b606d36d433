"""Sessions: the first call of a new one, the memory that stays of a call, and stored ones."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any, Final

from cases_stored import measure_stored
from floors import FLOOR_OF_ADD
from full_host import executor_for, full_host
from measuring import Block, Case, Effort, Probe, Row, compare, in_time
from sessions_on_postgres import measure_in_postgres
from workload import ADD_ARGUMENTS, add

from toolstile import Host, MarkdownSection, Prompt, Session
from toolstile_hookspecs import Tool, ToolCall, tool

FIRST_CALL: Final = {30: 0.6, 1_000: 0.8}
"""Milliseconds that the first call of a session may take, by the number of tools."""
FIRST_CALL_GOAL: Final = 0.2
TEXT: Final = 1_000_000
TEXT_LIMIT: Final = 1.05
"""Megabytes that may stay of a result of one: the text itself, and its event."""
CALLS: Final = 1_000
TEXTS: Final = 10


def measure_sessions(effort: Effort) -> list[Row]:
    """Measure first calls with few and with many tools, what stays of calls, and stored ones."""
    with full_host() as host:
        probes = {
            Probe(f"the first call of a session: {tools:,} tools", _first_calls(host, tools)): limit
            for tools, limit in FIRST_CALL.items()
        }
        rows = compare([Case(probe, FLOOR_OF_ADD) for probe in probes], effort)
        limits = {probe.name: limit for probe, limit in probes.items()}
        return [
            *(
                in_time(row, "ms", limits[row.case], FIRST_CALL_GOAL) if row.case in limits else row
                for row in rows
            ),
            _memory_of_a_call(host),
            _memory_of_a_text(host),
            *measure_stored(effort),
            *measure_in_postgres(effort),
        ]


def _first_calls(host: Host, number: int) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        prompt = Prompt.of("bench", "sessions", [_section(number)])

        def block(times: int) -> float:
            seconds = 0.0
            for _ in range(times):
                with host.executor(prompt=prompt, session=Session()) as executor:
                    call = ToolCall("add_0", ADD_ARGUMENTS)
                    started = perf_counter()
                    outcome = executor.dispatch(call)
                    seconds += perf_counter() - started
                    assert outcome.success, outcome.text
            return seconds

        yield block

    return opened


def _section(number: int) -> MarkdownSection[Any]:
    # The policy of the host speaks of these, too.
    names = ["add", "create_order", "deploy", *(f"add_{index}" for index in range(number - 3))]
    tools = [tool(name=name, timeout=None)(add) for name in names]
    return MarkdownSection(key="bench", title="Bench", tools=tools)


def _memory_of_a_call(host: Host) -> Row:
    stays = _stays(host, tool(name="add", timeout=None)(add), ADD_ARGUMENTS, CALLS)
    return Row("memory that stays of a call", None, None, None, stays, unit="B")


def _memory_of_a_text(host: Host) -> Row:
    def write() -> str:
        """Write a text."""
        return "".join(["x" * (TEXT // 2), "y" * (TEXT // 2)])

    stays = _stays(host, tool(name="write", timeout=None)(write), "{}", TEXTS) / TEXT
    name = "memory that stays of a result of 1 MB of text"
    return Row(name, None, None, None, stays, TEXT_LIMIT, unit="MB")


def _stays(host: Host, called: Tool[Any, Any], arguments: str, times: int) -> float:
    """Return how many bytes stay of each call, on average."""
    with executor_for(host, called) as executor:

        def call(number: int) -> None:
            for _ in range(number):
                assert executor.dispatch(ToolCall(called.name, arguments)).success

        call(1)
        tracemalloc.start()
        try:
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            call(times)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    return (after - before) / times
