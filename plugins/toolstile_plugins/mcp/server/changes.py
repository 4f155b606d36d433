"""Telling the client at the other end of a pipe that there are other tools than before.

Tools come and go while a host is open: those of the servers behind the gateway do. In the older
era whoever has begun with `initialize` is told; in the newer one, whoever listens.
"""

from __future__ import annotations

import asyncio
import contextlib
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

INTERVAL: Final = 0.5
"""Seconds between two looks at what the host offers; what changes in between is told of once."""
TOLD: Final = NotificationOptions(tools_changed=True, prompts_changed=True)
"""What a client of the older era can rely on being told of."""


class Changes:
    """Follows what a host offers, and tells the client when it has changed.

    Args:
        host: The host.
    """

    def __init__(self, host: HostHandle) -> None:
        self._host = host
        self._bus = InMemorySubscriptionBus()
        self._client: ServerSession | None = None
        self.listen = ListenHandler(self._bus)

    def seen_by(self, client: ServerSession) -> None:
        """Take note of who was shown what there is, and so has to be told of changes."""
        self._client = client

    async def follow(self) -> None:
        """Look again and again, until it is cancelled."""
        known = self._host.prompt
        while True:
            await asyncio.sleep(INTERVAL)
            # It is made anew only where a plugin offers something else, or there is another one.
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
