"""The section Servers: the MCP servers of the host, and the changes of their tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from http import HTTPStatus
from itertools import islice
from typing import Any, ClassVar, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_plugins.console.access import Fields
from toolstile_plugins.console.pages import Pages, version_of
from toolstile_plugins.mcp.gateway.check import found_of, points_of
from toolstile_plugins.mcp.gateway.errors import one_line
from toolstile_plugins.mcp.gateway.gateway import Gateway, Upstream
from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.gateway.trust import Doubt

LINES: Final = 4_000
"""The most lines of a definition, and of all changes of a server, that a page shows."""
WIDTH: Final = 2_000
"""The most characters of such a line."""


@dataclass(eq=False)
class Servers:
    """Shows the servers behind the gateway, and accepts their tools."""

    title: ClassVar[str] = "Servers"
    path: ClassVar[str] = "servers"

    _gateway: Gateway
    _pages: Pages

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/servers", self._list),
            self._pages.form("/servers/{name}", self._accept, once=True),
        ]

    def version(self) -> str:
        return version_of([each["version"] for each in map(_state_of, self._gateway.upstreams)])

    def _list(self, request: Request) -> Response:
        servers = [*map(_state_of, self._gateway.upstreams)]
        wire = {"servers": [server["found"] for server in servers]}
        return self._pages.show(request, "servers.html", {"servers": servers, "diff": diff}, wire)

    def _accept(self, request: Request, fields: Fields) -> Response:
        named = {upstream.name: upstream for upstream in self._gateway.upstreams}
        if (upstream := named.get(request.path_params["name"])) is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "The host has no such server.")
        seen = dict(fields).get("seen", "")

        async def accept() -> bool:
            # On the loop that learns of changes, so that no change comes in between.
            if _state_of(upstream)["seen"] != seen:
                return False
            await upstream.accept()
            return True

        if not asyncio.run_coroutine_threadsafe(accept(), self._gateway.loop).result():
            told = f"Nothing is accepted: the tools of {upstream.name} have changed since you "
            raise HTTPException(HTTPStatus.CONFLICT, f"{told}loaded the page. Load it again.")
        return self._pages.done(request, self.path, self._list)


def _state_of(upstream: Upstream) -> dict[str, Any]:
    """Return the present state of a server; it does not connect the server."""
    connection, doubts = upstream.connection, upstream.standing.doubts()
    down = connection.account or upstream.missing or "it has not answered yet"
    found = found_of(upstream, None if connection.protocol else down)
    seen = version_of([doubt.found.digest for doubt in doubts])
    version = version_of([found, seen])
    return {
        "found": found,
        "points": points_of(found),
        "doubts": doubts,
        "seen": seen,
        "version": version,
    }


def diff(doubts: Iterable[Doubt]) -> str:
    """Return the changes of tools; that can take long, because a server chooses their size."""
    lines = (f"{line}\n" for doubt in doubts for line in _diff(doubt))
    shown = "".join(islice(lines, LINES))
    return f"{shown}The rest is too long for this page.\n" if next(lines, "") else shown


def _diff(doubt: Doubt) -> Iterator[str]:
    yield f"{one_line(doubt.found.name, 80)}: {', '.join(doubt.changes) or 'new'}"
    before = [] if doubt.approved is None else _lines(doubt.approved)
    for line in [*unified_diff(before, _lines(doubt.found), lineterm="")][2:]:
        yield f"  {line}"


def _lines(definition: Definition) -> list[str]:
    lines = list[str]()
    for part, value in definition.plain().items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)
        lines += [f"{part.replace('_', ' ')}:", *(f"  {_cut(line)}" for line in text.split("\n"))]
    more = len(lines) - LINES
    return lines if more <= 0 else [*lines[:LINES], f"({more:,} more lines)"]


def _cut(line: str) -> str:
    more = len(line) - WIDTH
    return line if more <= 0 else f"{line[:WIDTH]} ({more:,} more characters)"
