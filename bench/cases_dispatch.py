"""A call through all stages, beside the bare function; and eight calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

from floors import FLOOR_OF_ADD, FLOOR_OF_ORDER
from full_host import executor_for, full_host
from measuring import Block, Case, Effort, Probe, Row, compare, in_time, timed, timed_on_loop
from workload import (
    ADD_ARGUMENTS,
    ORDER_ARGUMENTS,
    add,
    add_async,
    create_order,
    create_order_async,
)

from toolstile import Host
from toolstile_hookspecs import Filesystem, Tool, ToolCall, ToolContext, tool
from toolstile_hookspecs.support.text import counted

BATCH = 8
LONG_BATCH = 4_000
BATCH_LIMIT, BATCH_GOAL = 60, 40
"""Microseconds a call of a batch may take, however long the batch is; and the goal."""

COLLIDING = 100
COLLISION_LIMIT = 3
"""The ratio of calls that change one file to calls that change a file each: n - 1 run twice."""

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class Work:
    """One of the two tools, in its four forms, with what to call it with.

    Args:
        name: The tool's name.
        arguments: The JSON text of a call's arguments.
        function: The handler as a plain function.
        coroutine: The handler as an async one.
        floor: The same work without a host.
        limits: How much dearer it may be, and the goal: async handler, sync handler, sync
            handler with a timeout.
    """

    name: str
    arguments: str
    function: Callable[..., Any]
    coroutine: Callable[..., Any]
    floor: Probe
    limits: tuple[Bounds, Bounds, Bounds]

    def sync_tool(self) -> Tool[Any, Any]:
        return tool(name=self.name)(self.function)

    def untimed_tool(self) -> Tool[Any, Any]:
        return tool(name=self.name, timeout=None)(self.function)

    def async_tool(self) -> Tool[Any, Any]:
        return tool(name=self.name)(self.coroutine)

    def call(self) -> ToolCall:
        return ToolCall(self.name, self.arguments)


ADD = Work("add", ADD_ARGUMENTS, add, add_async, FLOOR_OF_ADD, ((18, 14), (14, 10), (40, 34)))
ORDER = Work(
    "create_order",
    ORDER_ARGUMENTS,
    create_order,
    create_order_async,
    FLOOR_OF_ORDER,
    ((2.3, 1.8), (2, 1.6), (None, None)),
)


def measure_dispatch(effort: Effort) -> list[Row]:
    """Measure single calls in each pairing of handler and driver."""
    with full_host() as host:
        cases = [*_singles(host, ADD), *_singles(host, ORDER), _in_turn(host)]
        return compare([*cases, *(Case(probe, ADD.floor) for probe in _HAND_OVERS)], effort)


def measure_batch(effort: Effort) -> list[Row]:
    """Measure a call that is dispatched together with others: seven, or thousands."""
    many = LONG_BATCH if effort.judged else 2 * BATCH
    with full_host() as host:
        probes = [probe for size in (BATCH, many) for probe in _batches(host, ADD, size)]
        rows = compare([Case(probe, ADD.floor) for probe in probes], effort)
        judged = [row if row.floor is None else _judged(row) for row in rows]
        orders = [Case(probe, ORDER.floor) for probe in _batches(host, ORDER, BATCH)]
        collisions = [Case(_notes(host, 1), _notes(host, COLLIDING), COLLISION_LIMIT, 2)]
        return [*judged, *compare(orders, effort), *compare(collisions, effort)]


def _judged(row: Row) -> Row:
    return in_time(row, "us", BATCH_LIMIT, BATCH_GOAL)


def _singles(host: Host, work: Work) -> list[Case]:
    dear, cheap, handed_over = work.limits
    probes = (
        ("async handler, async driver, timeout", _awaiting(host, work, work.async_tool), dear),
        ("sync handler, sync driver, no timeout", _calling(host, work, work.untimed_tool), cheap),
        ("sync handler, sync driver, timeout", _calling(host, work, work.sync_tool), handed_over),
        ("sync handler, async driver, timeout", _awaiting(host, work, work.sync_tool), handed_over),
    )
    return [
        Case(Probe(f"{work.name}: {form}", opened), work.floor, *bounds)
        for form, opened, bounds in probes
    ]


def _in_turn(host: Host) -> Case:
    """Show what the processor's caches cost: the larger floor, where a call precedes each run."""

    @contextmanager
    def opened() -> Iterator[Block]:
        with executor_for(host, ADD.untimed_tool()) as executor, ORDER.floor.opened() as floor:

            def block(times: int) -> float:
                seconds = 0.0
                for _ in range(times):
                    executor.dispatch(ADD.call())
                    seconds += floor(1)
                return seconds

            yield block

    return Case(Probe(f"{ORDER.floor.name}, each after a call of add", opened), ORDER.floor)


@contextmanager
def _handing_over() -> Iterator[Block]:
    """Wake a waiting thread and be woken by it, as cheaply as Python can."""
    there, back = Lock(), Lock()
    ended = False

    def wait() -> None:
        while True:
            there.acquire()
            if ended:
                return
            back.release()

    def hand_over() -> None:
        there.release()
        back.acquire()

    there.acquire()
    back.acquire()
    thread = Thread(target=wait, daemon=True)
    thread.start()
    yield timed(hand_over)
    ended = True
    there.release()
    thread.join()


@contextmanager
def _handing_over_from_loop() -> Iterator[Block]:
    def nothing() -> None:
        pass

    with timed_on_loop(lambda: asyncio.to_thread(nothing)) as block:
        yield block


_HAND_OVERS = (
    Probe("a bare hand-over to a waiting thread, and back", _handing_over),
    Probe("the same from an event loop, with asyncio.to_thread", _handing_over_from_loop),
)


def _batches(host: Host, work: Work, size: int) -> list[Probe]:
    name = f"{work.name}: each of {size:,} at once"
    return [
        Probe(f"{name}, async handlers, async driver", _awaiting_batch(host, work, size)),
        Probe(f"{name}, sync handlers, sync driver", _calling_batch(host, work, size)),
    ]


Opened = Callable[[], AbstractContextManager[Block]]


def _calling(host: Host, work: Work, make: Callable[[], Tool[Any, Any]]) -> Opened:
    @contextmanager
    def opened() -> Iterator[Block]:
        with executor_for(host, make()) as executor:
            _refuse_failures([executor.dispatch(work.call())])
            yield timed(lambda: executor.dispatch(work.call()))

    return opened


def _awaiting(host: Host, work: Work, make: Callable[[], Tool[Any, Any]]) -> Opened:
    @contextmanager
    def opened() -> Iterator[Block]:
        with executor_for(host, make()) as executor:
            _refuse_failures([executor.dispatch(work.call())])
            with timed_on_loop(lambda: executor.adispatch(work.call())) as block:
                yield block

    return opened


def _calling_batch(host: Host, work: Work, size: int) -> Opened:
    @contextmanager
    def opened() -> Iterator[Block]:
        with executor_for(host, work.sync_tool()) as executor:
            _refuse_failures(executor.dispatch_all(_calls(work, size)))
            yield _per_call(timed(lambda: executor.dispatch_all(_calls(work, size))), size)

    return opened


def _awaiting_batch(host: Host, work: Work, size: int) -> Opened:
    @contextmanager
    def opened() -> Iterator[Block]:
        with executor_for(host, work.async_tool()) as executor:
            _refuse_failures(executor.dispatch_all(_calls(work, size)))
            with timed_on_loop(lambda: executor.adispatch_all(_calls(work, size))) as block:
                yield _per_call(block, size)

    return opened


def note(path: str, text: str, context: ToolContext) -> None:
    """Put a text in the place of a file's, where it differs."""
    files = context.resources.get(Filesystem)
    if not files.exists(path) or files.read_bytes(path) != text.encode():
        files.write_bytes(path, text.encode())


def _notes(host: Host, files: int) -> Probe:
    """Return a batch of calls that each change one of so many files of the workspace."""
    names = [f"notes/{index % files}.txt" for index in range(COLLIDING)]

    @contextmanager
    def opened() -> Iterator[Block]:
        with executor_for(host, tool(category="write", contained=True)(note)) as executor:

            def run() -> None:
                # A text of its own for each: what is not changed does not collide.
                calls = [ToolCall("note", {"path": name, "text": uuid4().hex}) for name in names]
                _refuse_failures(executor.dispatch_all(calls))

            run()
            yield _per_call(timed(run), COLLIDING)

    return Probe(f"note: each of {COLLIDING} at once, in {counted(files, 'file')}", opened)


def _calls(work: Work, number: int) -> list[ToolCall]:
    return [work.call() for _ in range(number)]


def _per_call(block: Block, size: int) -> Block:
    return lambda times: block(times) / size


def _refuse_failures(outcomes: Sequence[Any]) -> None:
    # A call that fails early is fast, and says nothing.
    for outcome in outcomes:
        assert outcome.success, outcome.text
