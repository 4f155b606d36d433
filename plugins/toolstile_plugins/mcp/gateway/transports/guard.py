"""The guard between a server and the SDK: it limits sizes and rates."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage

from toolstile_plugins.mcp.gateway.errors import NESTED_DEEPER, ServerBroken

Item = SessionMessage | Exception

BURST: Final = 1000
"""Unasked messages that a server may send at once."""
PER_SECOND: Final = 200.0
"""Unasked messages that are added to these each second."""
FLOOD: Final = 10_000
"""Dropped messages after which the connection is ended."""


class GuardedStream(ObjectReceiveStream[Item]):
    """A stream of a server's messages, without those that come in a flood.

    Attributes:
        inner: The server's own stream, once it is connected.
        ended: Set when the messages have ended, or had to.
        fault: Why they had to end, None where they did not.
    """

    inner: ReadStream[Item]

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.fault: str | None = None
        self._room = float(BURST)
        self._looked = time.monotonic()
        self._dropped = 0

    @property
    def last_context(self) -> Any:
        """The context that the newest message was sent in, where the stream knows it."""
        return getattr(self.inner, "last_context", None)

    async def receive(self) -> Item:
        """Return the next message that can be taken.

        Raises:
            anyio.EndOfStream: When the server's messages have ended, or have to.
        """
        try:
            while True:
                item = await self.inner.receive()
                if isinstance(item, ServerBroken):
                    raise item
                if self._takes(item):
                    return item
        except ServerBroken as error:
            self.fault = str(error)
            self.ended.set()
            raise anyio.EndOfStream from error
        except anyio.EndOfStream:
            self.ended.set()
            raise

    async def aclose(self) -> None:
        """Close the stream."""
        self.ended.set()
        await self.inner.aclose()

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
            raise ServerBroken("it floods its client with unrequested messages")
        return False


@asynccontextmanager
async def guarded(
    guard: GuardedStream, connect: Callable[[], AbstractAsyncContextManager[TransportStreams]]
) -> AsyncGenerator[TransportStreams]:
    """Connect, and give streams of which the guard stands before the server's messages."""
    async with connect() as (messages, out):
        guard.inner = messages
        yield guard, out


DEEPEST: Final = 150
"""Levels of a message that are read; the SDK's reader takes 200."""
TOO_DEEP: Final = f'{{"$ref": "{NESTED_DEEPER}"}}'.encode()
"""Stands for what is nested deeper; in a schema, it keeps its tool from being used."""
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]')
"""The brackets of JSON, and its texts, in which they are none."""


def flattened(text: bytes) -> bytes:
    """Return JSON whose parts that are nested beyond what can be read say so instead.

    Example:
        >>> flattened(b"[" * 151 + b"]" * 151).count(b"["), flattened(b"[1]")
        (150, b'[1]')
    """
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return text
    kept: list[bytes] = []
    depth = start = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in b"[{":
            if depth == DEEPEST:
                kept.append(text[start : found.start()])
            depth += 1
        elif found[0] in b"]}":
            depth -= 1
            if depth == DEEPEST:
                kept.append(TOO_DEEP)
                start = found.end()
    return b"".join([*kept, text[start:]])
