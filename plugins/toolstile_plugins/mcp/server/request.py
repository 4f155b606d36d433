"""A request of a client: its principal, its cursor, and the notifications during it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import anyio
from mcp.server import subscriptions
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import SecretStr

from toolstile_hookspecs import HostHandle, Principal
from toolstile_hookspecs.codecs import encodable
from toolstile_plugins.approval.beside import person

log = logging.getLogger("toolstile.mcp")

WAITING: Final = 1000
"""The maximum number of reports that wait for a slow client; later ones win."""


Report = tuple[float, float | None, str | None]
"""The amount done, the total, and a message."""


class ProgressRelay:
    """Sends the reports of handlers in their order, from any thread.

    Because the protocol wants progress to grow, other reports are left out.
    """

    def __init__(self, send: Callable[[float, float | None, str | None], Awaitable[None]]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._reports: deque[Report] = deque(maxlen=WAITING)
        self._sending: asyncio.Task[None] | None = None
        self._last = float("-inf")
        self._stopped = False

    def report(self, done: float, total: float | None, message: str | None) -> None:
        if not _is_number(done):
            return
        shown = None if message is None else encodable(str(message))
        self._reports.append((done, total if _is_number(total) else None, shown))
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            log.debug("Progress was reported after the server had ended.")

    async def finish(self) -> None:
        # A call may end before the loop has handled its last report.
        self._begin()
        if self._sending is not None:
            await self._sending

    def stop(self) -> None:
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
"""Seconds between two checks of the host; changes in between are announced once."""
TOLD: Final = NotificationOptions(tools_changed=True, prompts_changed=True)
"""The changes that a client of the older era is notified of."""


class Changes:
    """Follows the tools and prompts of a host, and notifies the client of changes."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host
        self._bus = subscriptions.InMemorySubscriptionBus()
        self._client: ServerSession | None = None
        self.listen = subscriptions.ListenHandler(self._bus)

    def seen_by(self, client: ServerSession) -> None:
        """Remember the client that has listed tools or prompts, to notify it of changes."""
        self._client = client

    async def follow(self) -> None:
        """Check for changes until it is cancelled."""
        known = self._host.prompt
        while True:
            await asyncio.sleep(INTERVAL)
            # The host makes a new prompt only if the plugins, or their tools, have changed.
            current = self._host.prompt
            if current is not known:
                known = current
                await self._bus.publish(subscriptions.ToolsListChanged())
                await self._bus.publish(subscriptions.PromptsListChanged())
                if self._client is None:
                    continue
                # The client may leave at any time.
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    # The SDK sends these to a client of the newer era only if it listens.
                    await self._client.send_tool_list_changed()
                    await self._client.send_prompt_list_changed()


RequestContext = ServerRequestContext[Any, Any]


@dataclass(slots=True)
class CallRequest:
    """A `tools/call` that is being answered, on the loop of its client."""

    context: RequestContext  # the client's capabilities, and the way back to it
    params: Any
    progress: ProgressRelay
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    questions: dict[str, tuple[str, str | None]] = field(
        default_factory=dict[str, tuple[str, str | None]]
    )
    """The questions for the person at the client, by call id, each with an inbox's proof."""


current_request: ContextVar[CallRequest | None] = ContextVar("toolstile_mcp_request", default=None)
"""The request of the running call, also within its handler."""


# --- Principals


class Tokens:
    """The known tokens, and their owners."""

    def __init__(self, tokens: Mapping[str, SecretStr]) -> None:
        self._tokens = {name: token.get_secret_value().encode() for name, token in tokens.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the grant of a token, None for an unknown one."""
        given = token.encode()
        found: str | None = None
        for name, known in self._tokens.items():
            # Compare all of them in constant time, so that the duration reveals nothing.
            if hmac.compare_digest(given, known):
                found = name
        return None if found is None else AccessToken(token=token, client_id=found, scopes=[])


SOURCE: Final = "mcp"
"""The source of principals with a token of the server."""


def principal_of(context: RequestContext) -> Principal | None:
    """Return the principal of a request, None without tokens."""
    return connected_principal(getattr(context.request, "scope", {}))


def connected_principal(scope: Mapping[str, Any]) -> Principal | None:
    """Return the principal of a connection, None without tokens."""
    user = scope.get("user")
    return Principal(SOURCE, user.username) if isinstance(user, AuthenticatedUser) else None


def person_of(context: RequestContext) -> Principal | None:
    """Return the person at a client, None for a client over the network without a name."""
    return principal_of(context) or (person() if context.request is None else None)


# --- Pages of lists


T = TypeVar("T")


def page_of(
    items: Sequence[T], cursor: str | None, size: int, name_of: Callable[[T], str]
) -> tuple[Sequence[T], dict[str, str]]:
    """Return a page of items, and the cursor of the next one, if there are more.

    The items have a stable order and unique names. Raises `MCPError` if the cursor (the end of the
    page before) is not from this server, or its item is gone.
    """
    start = 0
    if cursor is not None:
        try:
            name = base64.urlsafe_b64decode(cursor.encode()).decode()
        except (binascii.Error, ValueError):
            raise _unknown_cursor() from None
        ends = (place for place, item in enumerate(items, 1) if name_of(item) == name)
        if (start := next(ends, 0)) == 0:
            raise _unknown_cursor()
    page = items[start : start + size]
    if start + size >= len(items):
        return page, {}
    return page, {"nextCursor": base64.urlsafe_b64encode(name_of(page[-1]).encode()).decode()}


def refuse_cursor(cursor: str | None) -> None:
    """Raise `MCPError` for a cursor, since the list has one page only."""
    if cursor is not None:
        raise _unknown_cursor()


def _unknown_cursor() -> MCPError:
    told = "This cursor is unknown, or the list has changed. List from the start."
    return MCPError(INVALID_PARAMS, told)
