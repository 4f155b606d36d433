"""FastMCP: its server asked directly, and by its client within one process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contestant import Awaiting, Contestant, Offer, Way
from fastmcp import Client, FastMCP


def _server(offer: Offer) -> FastMCP:
    server = FastMCP("bench")
    for name, function in offer.tools.items():
        server.tool(function, name=name, timeout=offer.timeout)
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
            return str((await client.call_tool(name, json.loads(arguments))).content[0].text)

        yield call


CONTESTANT = Contestant(
    distributions=("fastmcp",),
    ways=(
        Way(
            "`FastMCP.call_tool`",
            "lookup, authorisation, middleware, validation, structured result",
            _directly,
            times_out=True,
        ),
        Way(
            "`Client.call_tool`, in process",
            "the same, and the protocol's messages both ways",
            _by_client,
            times_out=True,
        ),
    ),
)
