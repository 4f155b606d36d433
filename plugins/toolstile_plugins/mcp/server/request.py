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
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
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


RequestContext = ServerRequestContext[Any, Any]


@dataclass(slots=True)
class CallRequest:
    """A `tools/call` that is being answered.

    Args:
        context: The SDK's: the client's capabilities, and the way back to it.
        params: The params of the request.
        progress: Takes what the handler reports to the client.
        loop: The loop on which the client is connected.
        questions: What the person at the client is to be asked, by the id of the call; beside it
            the proof that an inbox keeps the question, where one does.
    """

    context: RequestContext
    params: Any
    progress: ProgressRelay
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    questions: dict[str, tuple[str, str | None]] = field(
        default_factory=dict[str, tuple[str, str | None]]
    )


current_request: ContextVar[CallRequest | None] = ContextVar("toolstile_mcp_request", default=None)
"""The request that the running call belongs to, also within its handler."""


# --- Principals


class Tokens:
    """The tokens that are known, and whose they are."""

    def __init__(self, tokens: Mapping[str, SecretStr]) -> None:
        self._tokens = {name: token.get_secret_value().encode() for name, token in tokens.items()}

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the grant of a token, None for one that is not known."""
        given = token.encode()
        found: str | None = None
        for name, known in self._tokens.items():
            # All are compared, each in constant time, so that time reveals nothing.
            if hmac.compare_digest(given, known):
                found = name
        return None if found is None else AccessToken(token=token, client_id=found, scopes=[])


SOURCE: Final = "mcp"
"""The source of principals whom the server knows by their tokens."""


def principal_of(context: RequestContext) -> Principal | None:
    """Return who makes a request, None where nobody has to say."""
    return connected_principal(getattr(context.request, "scope", {}))


def connected_principal(scope: Mapping[str, Any]) -> Principal | None:
    """Return who is behind a connection, None where nobody has to say."""
    user = scope.get("user")
    return Principal(SOURCE, user.username) if isinstance(user, AuthenticatedUser) else None


def person_of(context: RequestContext) -> Principal | None:
    """Return the person at a client; None where somebody comes over the network without a name."""
    return principal_of(context) or (person() if context.request is None else None)


# --- Pages of lists


T = TypeVar("T")


def page_of(
    items: Sequence[T], cursor: str | None, size: int, name_of: Callable[[T], str]
) -> tuple[Sequence[T], dict[str, str]]:
    """Return a page of items, and the cursor of the next one, if there is any.

    Args:
        items: All of them, in an order that stays.
        cursor: Where the page before ended; None for the first.
        size: How many a page has.
        name_of: What names an item among the others.

    Raises:
        MCPError: When the cursor was not given out here, or what it names is gone.
    """
    start = 0 if cursor is None else _after(items, cursor, name_of)
    page = items[start : start + size]
    more = start + size < len(items)
    return page, {"nextCursor": _cursor(name_of(page[-1]))} if more else {}


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _after(items: Sequence[T], cursor: str, name_of: Callable[[T], str]) -> int:
    try:
        name = base64.urlsafe_b64decode(cursor.encode()).decode()
    except (binascii.Error, ValueError):
        name = None
    for place, item in enumerate(items):
        if name_of(item) == name:
            return place + 1
    raise _unknown_cursor()


def refuse_cursor(cursor: str | None) -> None:
    """Refuse the cursor of a list that has one page only.

    Raises:
        MCPError: When there is one.
    """
    if cursor is not None:
        raise _unknown_cursor()


def _unknown_cursor() -> MCPError:
    told = "This cursor is unknown, or the list has changed. List from the start."
    return MCPError(INVALID_PARAMS, told)
