"""The flow of messages over a pipe: what is none is answered, and nothing piles up unread."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Final, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

UNREAD: Final = 100
"""How many messages wait at most for a client that does not read, until it is not read either."""

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]


class Outgoing:
    """Takes messages for the client, and knows how many it has not read.

    Args:
        stream: Where they go.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._waiting = 0
        self._changed = anyio.Event()

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message; returns when it is on its way."""
        self._waiting += 1
        try:
            await self._stream.send(item)
        finally:
            self._waiting -= 1
            self._changed.set()

    async def has_room(self) -> None:
        """Wait until the client has read most of what it was sent."""
        while self._waiting >= UNREAD:
            self._changed = anyio.Event()
            await self._changed.wait()

    async def aclose(self) -> None:
        """Send nothing more."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        """Give it."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Send nothing more."""
        await self.aclose()


@contextlib.asynccontextmanager
async def regulated(incoming: Any, outgoing: Any) -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Give streams that stand before those of a pipe.

    Args:
        incoming: What the client writes: messages, and faults in place of those that are none.
        outgoing: What it reads.
    """
    answers = Outgoing(outgoing)
    sender, messages = anyio.create_memory_object_stream[SessionMessage | Exception]()
    async with anyio.create_task_group() as group:
        group.start_soon(_pass_on, incoming, sender, answers)
        try:
            yield messages, answers
        finally:
            group.cancel_scope.cancel()


async def _pass_on(
    incoming: Any,
    messages: MemoryObjectSendStream[SessionMessage | Exception],
    answers: Outgoing,
) -> None:
    # Either end may be closed at any time: the client has left, or the server ends.
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with messages:
            async for item in incoming:
                await answers.has_room()
                if isinstance(item, Exception):
                    await answers.send(_answer_to(item))
                else:
                    await messages.send(item)


def _answer_to(fault: Exception) -> SessionMessage:
    """Say what is wrong with a message; whose answer this is cannot be known."""
    is_json = isinstance(fault, ValidationError) and all(
        each["type"] != "json_invalid"
        for each in fault.errors(include_url=False, include_context=False, include_input=False)
    )
    error = (
        ErrorData(
            code=INVALID_REQUEST,
            message="That is no JSON-RPC 2.0 request, notification or response.",
        )
        if is_json
        else ErrorData(code=PARSE_ERROR, message="That is not JSON: one message, on one line.")
    )
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error))
