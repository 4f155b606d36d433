"""The guard between a server and the SDK: it limits sizes and rates."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, Final, Self

import anyio
import mcp_types as types
from mcp.client._transport import ReadStream
from mcp.shared.message import SessionMessage

from toolstile_plugins.mcp.gateway.errors import ServerBroken

Item = SessionMessage | Exception

BURST: Final = 1000
"""Messages that answer nothing which a server may send at once."""
PER_SECOND: Final = 200.0
"""The number that is added each second."""
FLOOD: Final = 10_000
"""Messages beyond that after which the connection is ended."""


class GuardedStream:
    """A stream of a server's messages, of which those are dropped that come in a flood.

    Args:
        inner: The stream.
    """

    def __init__(self, inner: ReadStream[Item]) -> None:
        self._inner = inner
        self._room = float(BURST)
        self._looked = time.monotonic()
        self._dropped = 0
        self.ended = asyncio.Event()
        self.fault: str | None = None

    @property
    def last_context(self) -> Any:
        """The context that the newest message was sent in, where the stream knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        """Return the next message that can be taken."""
        try:
            while True:
                item = await self._inner.receive()
                if isinstance(item, ServerBroken):
                    raise item
                if self._takes(item):
                    return item
        except ServerBroken as error:
            self.fault = str(error)
            self.ended.set()
            raise StopAsyncIteration from error

    async def aclose(self) -> None:
        """Close the stream."""
        self.ended.set()
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        """Return the next message, or end where the server's have ended or have to."""
        try:
            return await self.receive()
        except anyio.EndOfStream:
            self.ended.set()
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        """Close the stream."""
        await self.aclose()

    def _takes(self, item: Item) -> bool:
        if isinstance(item, SessionMessage) and isinstance(
            item.message, (types.JSONRPCResponse, types.JSONRPCError)
        ):
            return True
        now = time.monotonic()
        self._room = min(float(BURST), self._room + (now - self._looked) * PER_SECOND)
        self._looked = now
        if self._room >= 1:
            self._room -= 1
            return True
        self._dropped += 1
        if self._dropped > FLOOD:
            raise ServerBroken("it floods its client with messages that nobody asked for")
        return False
