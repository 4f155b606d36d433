"""The section Servers: the MCP servers of the host, and the changes of their tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from http import HTTPStatus
from typing import Any, ClassVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from toolstile_plugins.console.access import Access, Fields
from toolstile_plugins.console.pages import Pages, version_of, wants_json
from toolstile_plugins.mcp.gateway.check import found_of, points_of
from toolstile_plugins.mcp.gateway.errors import one_line
from toolstile_plugins.mcp.gateway.gateway import Gateway, Upstream
from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.gateway.trust import Doubt


@dataclass(frozen=True, slots=True)
class Server:
    """A server as the page shows it."""

    found: dict[str, Any]
    """Its state, as `toolstile mcp check` prints it."""
    points: list[str]
    """The points that need attention."""
    diff: str
    """The tools that were not accepted, beside their accepted definitions; "" without any."""
    seen: str
    """The digest of the definitions that Accept accepts."""

    @property
    def version(self) -> str:
        return version_of([self.found, self.seen])


@dataclass(eq=False)
class Servers:
    """Shows the servers behind the gateway, and accepts their tools."""

    title: ClassVar[str] = "Servers"
    path: ClassVar[str] = "servers"

    _gateway: Gateway
    _access: Access
    _pages: Pages

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/servers", self._list),
            self._access.form("/servers/{name}", self._accept, once=True),
        ]

    def version(self) -> str:
        return version_of([server.version for server in self._servers()])

    def _servers(self) -> list[Server]:
        return [shown(upstream) for upstream in self._gateway.upstreams]

    def _list(self, request: Request) -> Response:
        servers = self._servers()
        wire = {"servers": [server.found for server in servers]}
        return self._pages.show(request, "servers.html", {"servers": servers}, wire)

    def _accept(self, request: Request, fields: Fields) -> Response:
        named = {upstream.name: upstream for upstream in self._gateway.upstreams}
        if (upstream := named.get(request.path_params["name"])) is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "The host has no such server.")
        seen = dict(fields).get("seen", "")

        async def accept() -> bool:
            # On the loop that learns of changes, so that no change comes in between.
            if shown(upstream).seen != seen:
                return False
            await upstream.accept()
            return True

        if not asyncio.run_coroutine_threadsafe(accept(), self._gateway.loop).result():
            told = f"Nothing is accepted: the tools of {upstream.name} have changed since you "
            raise HTTPException(HTTPStatus.CONFLICT, f"{told}loaded the page. Load it again.")
        if wants_json(request):
            return self._list(request)
        return RedirectResponse(request.url.path.rpartition("/")[0], HTTPStatus.SEE_OTHER)


def shown(upstream: Upstream) -> Server:
    """Return the present state of a server; it does not connect the server."""
    connection, doubts = upstream.connection, upstream.standing.doubts()
    down = connection.account or upstream.missing or "it has not answered yet"
    found = found_of(upstream, None if connection.protocol else down)
    diff = "".join(f"{line}\n" for doubt in doubts for line in _diff(doubt))
    seen = version_of([doubt.found.digest for doubt in doubts])
    return Server(found, points_of(found), diff, seen)


def _diff(doubt: Doubt) -> Iterator[str]:
    yield f"{one_line(doubt.found.name, 80)}: {', '.join(doubt.changes) or 'new'}"
    before = [] if doubt.approved is None else _lines(doubt.approved)
    for line in [*unified_diff(before, _lines(doubt.found), lineterm="")][2:]:
        yield f"  {line}"


def _lines(definition: Definition) -> list[str]:
    lines = list[str]()
    for part, value in definition.plain().items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)
        lines += [f"{part.replace('_', ' ')}:", *(f"  {line}" for line in text.split("\n"))]
    return lines
