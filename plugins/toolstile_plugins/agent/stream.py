"""Runs that are read while they go on: on a thread, or as a task of the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import aclosing, closing, contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Generic, Self, TypeVar

from toolstile_hookspecs import Cancellation, SessionProtocol, ToolInvoked
from toolstile_hookspecs.agents.messages import CallMade, Message
from toolstile_plugins.agent.events import ModelReplied
from toolstile_plugins.agent.result import RunResult

O = TypeVar("O")  # noqa: E741 - the output

Piece = str | CallMade | ToolInvoked
"""Text as it arrives, a call that the model has made, or one that has ended."""
Tell = Callable[[Piece], None]


@contextmanager
def calls_told(session: SessionProtocol, tell: Tell) -> Generator[None]:
    """Tell of the calls that are made and ended in a session within the block."""

    def made(_: ModelReplied) -> None:
        for call in session[Message].all()[-1].calls:
            tell(call)

    def ended(event: ToolInvoked) -> None:
        if event.parent_id is None:
            tell(event)

    leave_made = session.dispatcher.subscribe(ModelReplied, made)
    leave_ended = session.dispatcher.subscribe(ToolInvoked, ended)
    try:
        yield
    finally:
        leave_made()
        leave_ended()


class RunStream(Generic[O]):
    """A run on a thread of its own.

    Iterating gives its text as it arrives, `events` the calls as well; both raise at the end what
    `execute` would. Leaving the iteration early cancels the run, as `close` does.

    Args:
        work: Runs the request; is given what to tell pieces to, and what cancels it.

    Example:
        ```python
        stream = agent.stream("Which orders are open?")
        for text in stream:
            print(text, end="", flush=True)
        print(stream.result().usage)
        ```
    """

    def __init__(self, work: Callable[[Tell, Cancellation], RunResult[O]]) -> None:
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()
        self._ended: Future[RunResult[O]] = Future()
        self._stop = Cancellation()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run, work), name="toolstile-run", daemon=True
        )
        self._thread.start()

    def __iter__(self) -> Iterator[str]:
        """Yield the text as it arrives."""
        with closing(self.events()) as pieces:
            yield from (piece for piece in pieces if isinstance(piece, str))

    def events(self) -> Generator[Piece]:
        """Yield text as it arrives, calls as they are made, and calls as they have ended.

        Raises:
            RunFailed: At the end, when the run comes to no answer.
        """
        try:
            while (piece := self._pieces.get()) is not None:
                yield piece
            self.result()
        finally:
            self.close()

    def result(self) -> RunResult[O]:
        """Wait for the end of the run, and return its result.

        Raises:
            RunFailed: When the run comes to no answer.
        """
        return self._ended.result()

    def close(self) -> None:
        """Cancel a run that goes on, and wait for its end."""
        self._stop.cancel()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, work: Callable[[Tell, Cancellation], RunResult[O]]) -> None:
        try:
            self._ended.set_result(work(self._pieces.put, self._stop))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._ended.set_exception(error)
        finally:
            self._pieces.put(None)


class AsyncRunStream(Generic[O]):
    """A run as a task of the running event loop; see `RunStream`.

    Args:
        work: Runs the request; is given what to tell pieces to, and what cancels it.
    """

    def __init__(self, work: Callable[[Tell, Cancellation], Awaitable[RunResult[O]]]) -> None:
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._stop = Cancellation()
        self._task = self._loop.create_task(self._run(work))

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the text as it arrives."""
        async with aclosing(self.events()) as pieces:
            async for piece in pieces:
                if isinstance(piece, str):
                    yield piece

    async def events(self) -> AsyncGenerator[Piece]:
        """Yield text as it arrives, calls as they are made, and calls as they have ended.

        Raises:
            RunFailed: At the end, when the run comes to no answer.
        """
        try:
            while (piece := await self._pieces.get()) is not None:
                yield piece
            await self.result()
        finally:
            await self.aclose()

    async def result(self) -> RunResult[O]:
        """Wait for the end of the run, and return its result.

        Raises:
            RunFailed: When the run comes to no answer.
        """
        return await self._task

    async def aclose(self) -> None:
        """Cancel a run that goes on, and wait for its end."""
        self._stop.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def _run(
        self, work: Callable[[Tell, Cancellation], Awaitable[RunResult[O]]]
    ) -> RunResult[O]:
        try:
            return await work(self._tell, self._stop)
        finally:
            self._tell(None)

    def _tell(self, piece: Piece | None) -> None:
        # Calls end on any thread.
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
