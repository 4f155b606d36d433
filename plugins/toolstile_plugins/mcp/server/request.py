"""The request that is being answered: what whoever is asked meanwhile may need of it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp.server.context import ServerRequestContext

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
        questions: What the person at the client is to be asked, by the id of the call.
    """

    context: RequestContext
    params: Any
    progress: ProgressRelay
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    questions: dict[str, str] = field(default_factory=dict[str, str])


_current: ContextVar[CallRequest | None] = ContextVar("toolstile_mcp_request", default=None)


def current_request() -> CallRequest | None:
    """Return the request that the running call belongs to, also within its handler."""
    return _current.get()


def make_current(request: CallRequest) -> None:
    """Make a request the current one, for the rest of the running task and what it begins."""
    _current.set(request)
