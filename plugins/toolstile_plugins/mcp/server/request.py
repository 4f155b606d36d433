"""A request of a client: the one that is being answered, its principal and its cursor."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import SecretStr

from toolstile_hookspecs import Principal
from toolstile_plugins.approval.beside import person
from toolstile_plugins.mcp.server.notifications import ProgressRelay

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
