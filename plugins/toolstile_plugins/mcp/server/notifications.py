"""The progress that handlers report, on its way to the client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from mcp.server.lowlevel import NotificationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)

from toolstile_hookspecs import HostHandle
from toolstile_hookspecs.codecs import encodable

log = logging.getLogger("toolstile.mcp")

WAITING: Final = 1000
"""The maximum number of reports that wait for a slow client; later ones win."""


Report = tuple[float, float | None, str | None]
"""The amount done, the total, and a message."""


class ProgressRelay:
    """Sends reports in the order in which handlers make them, on whatever thread.

    The protocol wants progress to grow, so a report that does not, and one that is not a number, is
    left out.
    """

    def __init__(self, send: Callable[[float, float | None, str | None], Awaitable[None]]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._reports: deque[Report] = deque(maxlen=WAITING)
        self._sending: asyncio.Task[None] | None = None
        self._last = float("-inf")
        self._stopped = False

    def report(self, done: float, total: float | None, message: str | None) -> None:
        """Take a report, on any thread."""
        if not _is_number(done):
            return
        shown = None if message is None else encodable(str(message))
        self._reports.append((done, total if _is_number(total) else None, shown))
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            log.debug("Progress was reported after the server had ended.")

    async def finish(self) -> None:
        """Wait until all that was reported has been sent."""
        # A call may have ended before the loop came to its last report.
        self._begin()
        if self._sending is not None:
            await self._sending

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        if self._sending is not None:
            self._sending.cancel()

    def _begin(self) -> None:
        if self._reports and not self._stopped and (self._sending is None or self._sending.done()):
            self._sending = asyncio.ensure_future(self._send_all())

    async def _send_all(self) -> None:
        while self._reports:
            done, total, message = self._reports.popleft()
            if done > self._last:
                self._last = done
                await self._send(done, total, message)


def _is_number(given: object) -> bool:
    try:
        return isinstance(given, int | float) and math.isfinite(given)
    except OverflowError:
        return False


# --- Changes of the tools


INTERVAL: Final = 0.5
"""Seconds between two looks at the host; changes in between are announced once."""
TOLD: Final = NotificationOptions(tools_changed=True, prompts_changed=True)
"""The changes of which a client of the older era is notified."""


class Changes:
    """Follows the tools and prompts of a host, and notifies the client of changes."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host
        self._bus = InMemorySubscriptionBus()
        self._client: ServerSession | None = None
        self.listen = ListenHandler(self._bus)

    def seen_by(self, client: ServerSession) -> None:
        """Remember the client that has listed tools or prompts, to notify it of changes."""
        self._client = client

    async def follow(self) -> None:
        """Look again and again, until it is cancelled."""
        known = self._host.prompt
        while True:
            await asyncio.sleep(INTERVAL)
            # It is made again only where the plugins, or what they offer, have changed.
            current = self._host.prompt
            if current is not known:
                known = current
                await self._tell()

    async def _tell(self) -> None:
        await self._bus.publish(ToolsListChanged())
        await self._bus.publish(PromptsListChanged())
        if self._client is None:
            return
        # The client may leave at any time.
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            # To one of the newer era the SDK sends nothing that it does not listen to.
            await self._client.send_tool_list_changed()
            await self._client.send_prompt_list_changed()
