"""The program that a revision's own Python runs: it opens a case and takes slices of it.

`python revision.py NAME` answers lines of JSON as `runner.py` does. It uses the public names that
every revision has; what a revision calls otherwise is made up for here, and nowhere else.
"""

from __future__ import annotations

import asyncio
import gc
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final, TypeVar

from full_host import executor_for, full_host, sections_of
from measuring import Block, timed, timed_on_loop
from runner import answer, apart
from workload import (
    ADD_ARGUMENTS,
    ORDER_ARGUMENTS,
    Address,
    Item,
    add,
    add_async,
    create_order,
    create_order_async,
)

from toolstile import Executor, hookimpl
from toolstile_hookspecs import (
    Binding,
    IdempotencyConfig,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.ledger import EffectLedger, MemoryStore
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.record import Recorder, RecordFile

T = TypeVar("T")

BATCH: Final = 8
ADD: Final = partial(ToolCall, "add", ADD_ARGUMENTS)
ORDER: Final = partial(ToolCall, "create_order", ORDER_ARGUMENTS)


@contextmanager
def _add() -> Iterator[Block]:
    with full_host() as host, executor_for(host, tool(timeout=None)(add)) as executor:
        yield _dispatching(executor, ADD)


@contextmanager
def _add_async() -> Iterator[Block]:
    with full_host() as host, executor_for(host, tool(name="add")(add_async)) as executor:
        assert executor.dispatch(ADD()).success
        with timed_on_loop(lambda: executor.adispatch(ADD()), process_time) as block:
            yield block


@contextmanager
def _batch() -> Iterator[Block]:
    with full_host() as host, executor_for(host, tool(timeout=None)(add)) as executor:
        block = timed(lambda: executor.dispatch_all([ADD() for _ in range(BATCH)]), process_time)
        yield lambda times: block(times) / BATCH


@contextmanager
def _order() -> Iterator[Block]:
    with full_host() as host, executor_for(host, tool(timeout=None)(create_order)) as executor:
        yield _dispatching(executor, ORDER)


@contextmanager
def _order_by_schema() -> Iterator[Block]:
    def handle(params: Mapping[str, Any], *, context: ToolContext) -> ToolResult[Any]:  # noqa: ARG001 - a handler's signature
        address, items = Address(**params["address"]), [Item(**each) for each in params["items"]]
        return ToolResult.ok(create_order(**{**params, "address": address, "items": items}))

    foreign: Tool[Any, Any] = Tool(
        name="create_order",
        description="Create an order.",
        handler=handle,
        params_schema=tool(create_order).params_codec.schema(),
        timeout=None,
    )
    with full_host() as host, executor_for(host, foreign) as executor:
        yield _dispatching(executor, ORDER)


@contextmanager
def _order_over_mcp() -> Iterator[Block]:
    # Heavy, and of one case.
    from mcp import Client

    from toolstile_plugins.mcp.server.server import HostServer
    from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of
    from toolstile_plugins.mcp.settings import ServeSettings

    class Orders:
        @hookimpl
        def toolstile_sections(self) -> Any:
            return sections_of(tool(name="create_order")(create_order_async))

    arguments = json.loads(ORDER_ARGUMENTS)
    with full_host(Orders()) as host, asyncio.Runner() as runner:
        session = ServedSession(executors_of(host)(None, None))
        server = HostServer(host, ServeSettings(), OneSession(session)).protocol

        async def measure(times: int) -> float:
            async with Client(server) as client:
                assert not (await client.call_tool("create_order", arguments)).is_error
                started = process_time()
                for _ in range(times):
                    await client.call_tool("create_order", arguments)
                return process_time() - started

        yield lambda times: runner.run(measure(times))
        session.end()


def _unwaiting(store: Callable[..., T]) -> Callable[..., T]:
    """Return a store that does not wait for the disk; before `durability` none did by default."""
    known = signature(store).parameters
    return partial(store, durability="process") if "durability" in known else store


@contextmanager
def _recorded() -> Iterator[Block]:
    with full_host() as host, TemporaryDirectory() as folder:
        recorder = Recorder(_unwaiting(RecordFile)(Path(folder) / "calls.jsonl"), host.clock)
        host.register(recorder)
        with executor_for(host, tool(timeout=None)(add)) as executor:
            yield _dispatching(executor, ADD)
        recorder.close()


@contextmanager
def _once(store: Callable[[Path], Any]) -> Iterator[Block]:
    once = tool(timeout=None, idempotency=IdempotencyConfig(scope="call"))(add)
    with full_host() as host, TemporaryDirectory() as folder:
        book = EffectLedger(store(Path(folder) / "ledger.db"))
        bindings = (Binding.instance(EffectLedger, book),)
        with executor_for(host, once, resources=bindings) as executor:
            yield _dispatching(executor, ADD)
        book.shut()


CASES: Final[Mapping[str, Callable[[], AbstractContextManager[Block]]]] = {
    "add": _add,
    "add, async with a timeout": _add_async,
    "add, each of 8 at once": _batch,
    "add, recorded": _recorded,
    "add, memory ledger": lambda: _once(lambda _: MemoryStore()),
    "add, SQLite ledger": lambda: _once(_unwaiting(SqliteStore)),
    "create_order": _order,
    "create_order, by JSON Schema": _order_by_schema,
    "create_order, over MCP in memory": _order_over_mcp,
}


class Tasks:
    """The requests of a parent."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._block: Block
        self.by_name: Mapping[str, Callable[..., Any]] = {
            "cases": lambda: list(CASES),
            "open": self._open,
            "fit": self._fit,
            "take": self._take,
        }

    def _open(self, case: str) -> None:
        self._stack.close()
        self._block = self._stack.enter_context(CASES[case]())
        gc.collect()

    def _fit(self, seconds: float) -> int:
        self._block(3)
        return max(1, math.ceil(seconds / min(self._block(1) for _ in range(5))))

    def _take(self, calls: int) -> float:
        # Another process has had the caches since the last slice.
        self._block(max(1, calls // 8))
        return self._block(calls) / calls


def _dispatching(executor: Executor, call: Callable[[], ToolCall]) -> Block:
    # A call that fails early is fast, and says nothing.
    outcome = executor.dispatch(call())
    assert outcome.success, outcome.text
    return timed(lambda: executor.dispatch(call()), process_time)


def main() -> None:
    """Answer the parent until it has no more to ask."""
    with apart() as (said, answers), ExitStack() as stack:
        tasks = Tasks(stack)
        for line in said:
            print(json.dumps(answer(tasks, line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
