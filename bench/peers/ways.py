"""A way of calling tools, opened: blocking for the one who measures, awaited where it has to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from contextvars import Context, copy_context
from itertools import repeat
from time import perf_counter
from typing import Any

from contestant import Awaiting, Calling, Offer, Way
from measuring import Block, timed


@contextmanager
def opened_block(way: Way, offer: Offer, name: str, arguments: str) -> Iterator[Block]:
    """Give what times calls of a tool."""
    opened = way.opened(offer)
    if isinstance(opened, AbstractContextManager):
        with opened as call:
            yield timed(lambda: call(name, arguments))
        return
    with _held_open(opened) as (run, waiting):

        async def times_calls(times: int) -> float:
            started = perf_counter()
            for _ in repeat(None, times):
                await waiting(name, arguments)
            return perf_counter() - started

        yield lambda times: run(times_calls(times))


@contextmanager
def opened_call(way: Way, offer: Offer) -> Iterator[Calling]:
    """Give what calls tools and waits for the answer."""
    opened = way.opened(offer)
    if isinstance(opened, AbstractContextManager):
        with opened as call:
            yield call
        return
    with _held_open(opened) as (run, waiting):

        async def answered(name: str, arguments: str) -> object:
            return await waiting(name, arguments)

        yield lambda name, arguments: run(answered(name, arguments))


@contextmanager
def _held_open(
    opened: AbstractAsyncContextManager[Awaiting],
) -> Iterator[tuple[Callable[[Awaitable[Any]], Any], Awaiting]]:
    # What is entered is left by the same task, as task groups demand, and calls see the context
    # variables that were set on entering.
    context = copy_context()
    with asyncio.Runner() as runner:

        def run(waiting: Any) -> Any:
            return runner.run(waiting, context=context)

        held = run(_hold(opened, context))
        try:
            yield run, held.call
        finally:
            run(held.release())


class _Held:
    def __init__(self, call: Awaiting, task: asyncio.Task[None], leave: asyncio.Event) -> None:
        self.call = call
        self._task = task
        self._leave = leave

    async def release(self) -> None:
        self._leave.set()
        await self._task


async def _hold(opened: AbstractAsyncContextManager[Awaiting], context: Context) -> _Held:
    ready: asyncio.Future[Awaiting] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def hold() -> None:
        async with opened as call:
            ready.set_result(call)
            await leave.wait()

    task = asyncio.get_running_loop().create_task(hold(), context=context)
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    return _Held(ready.result(), task, leave)
