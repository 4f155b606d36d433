"""A call that waits for nothing takes no more turns of the event loop than with the SDK alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer

from toolstile import Host, tool
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of
from toolstile_plugins.mcp.settings import ServeSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def turns_of_a_call(server: Any) -> int:
    loop, turns, counting = asyncio.get_running_loop(), 0, True

    def count() -> None:
        nonlocal turns
        turns += 1
        if counting:
            loop.call_soon(count)

    async with Client(server) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        loop.call_soon(count)
        result = await client.call_tool("add", {"a": 1, "b": 2})
        counting = False
        assert result.structured_content == {"result": 3}
        return turns


async def test_a_call_takes_as_many_turns_of_the_loop_as_the_sdk_needs() -> None:
    alone = MCPServer("alone")
    alone.add_tool(add)
    with Host(tools=[tool(category="read")(add)]) as host:
        session = ServedSession(executors_of(host)(None, None))
        server = HostServer(host, ServeSettings(), OneSession(session)).protocol
        assert await turns_of_a_call(server) == await turns_of_a_call(alone)
        session.end()
