"""Runs that are read while they go on: on a thread, or as a task of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from toolstile_hookspecs import Cancellation, SessionProtocol, ToolInvoked
from toolstile_hookspecs.agents.messages import CallMade, Message
from toolstile_hookspecs.agents.provider import Delta
from toolstile_plugins.agent.effects import on_thread
from toolstile_plugins.agent.events import ModelReplied
from toolstile_plugins.agent.result import RunResult

O = TypeVar("O")  # noqa: E741 - the output

Piece = Delta | CallMade | ToolInvoked
"""Text and calls as they arrive, a call that the model has made, or one that has ended."""
Tell = Callable[[Piece], None]


def read(work: Callable[[Tell, Cancellation], RunResult[O]]) -> Generator[Piece | RunResult[O]]:
    """Run a request on a thread; yield its pieces, then its result. Leaving it cancels the run.

    Args:
        work: Runs the request; is given what to tell pieces to, and what cancels it.
    """
    pieces, stop = SimpleQueue[Piece | None](), Cancellation()
    ended = on_thread(partial(work, pieces.put, stop), "toolstile-run")
    ended.add_done_callback(lambda _: pieces.put(None))
    try:
        while (piece := pieces.get()) is not None:
            yield piece
        yield ended.result()
    finally:
        stop.cancel()
        wait([ended])


async def aread(
    work: Callable[[Tell, Cancellation], Coroutine[Any, Any, RunResult[O]]],
) -> AsyncGenerator[Piece | RunResult[O]]:
    """Run a request as a task; see `read`."""
    loop, stop = asyncio.get_running_loop(), Cancellation()
    pieces = asyncio.Queue[Piece | None]()

    def tell(piece: Piece | None) -> None:
        # Calls end on any thread.
        loop.call_soon_threadsafe(pieces.put_nowait, piece)

    task = loop.create_task(work(tell, stop))
    task.add_done_callback(lambda _: tell(None))
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
        yield await task
    finally:
        stop.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def calls_told(session: SessionProtocol, tell: Tell) -> Generator[None]:
    """Tell of the calls that are made and ended in a session within the block."""

    def made(_: ModelReplied) -> None:
        for call in session[Message].all()[-1].calls:
            tell(call)

    def ended(event: ToolInvoked) -> None:
        if event.parent_id is None:
            tell(event)

    with ExitStack() as stack:
        stack.callback(session.dispatcher.subscribe(ModelReplied, made))
        stack.callback(session.dispatcher.subscribe(ToolInvoked, ended))
        yield
