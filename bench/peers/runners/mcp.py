"""The MCP SDK: its server asked directly, and by its client within one process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contestant import Awaiting, Contestant, Offer, Way
from mcp import Client
from mcp.server import MCPServer


def _server(offer: Offer) -> MCPServer:
    server = MCPServer("bench", log_level="CRITICAL")
    for name, function in offer.tools.items():
        server.add_tool(function, name=name)
    return server


@asynccontextmanager
async def _directly(offer: Offer) -> AsyncIterator[Awaiting]:
    server = _server(offer)

    async def call(name: str, arguments: str) -> str:
        return str((await server.call_tool(name, json.loads(arguments))).content[0].text)

    yield call


@asynccontextmanager
async def _by_client(offer: Offer) -> AsyncIterator[Awaiting]:
    async with Client(_server(offer)) as client:

        async def call(name: str, arguments: str) -> str:
            params = json.loads(arguments)
            result = await client.call_tool(name, params, read_timeout_seconds=offer.timeout)
            return str(result.content[0].text)

        yield call


CONTESTANT = Contestant(
    distributions=("mcp",),
    ways=(
        Way("`MCPServer.call_tool`", "lookup, validation, structured result", _directly),
        Way(
            "`Client.call_tool`, in process",
            "the same, and the protocol's messages both ways",
            _by_client,
            times_out=True,
        ),
    ),
)
