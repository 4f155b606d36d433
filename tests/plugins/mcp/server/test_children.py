"""A server over a child lists and calls the tools of the child only."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from toolstile import Host
from toolstile_hookspecs import tool
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession
from toolstile_plugins.mcp.settings import ServeSettings

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@tool(category="read")
def read_file(path: str) -> str:
    """Read a file."""
    return f"read {path}"


@tool(category="write")
def write_file(path: str) -> str:
    """Write a file."""
    return f"written {path}"


@pytest.mark.parametrize("narrowed", [False, True])
async def test_a_client_of_a_child_sees_and_calls_its_tools_only(narrowed: bool) -> None:
    only = ["read_*"] if narrowed else None
    with Host(tools=[read_file, write_file]) as host, host.executor() as executor:
        session = ServedSession(executor.child("client", tools=only))
        server = HostServer(host, ServeSettings(), OneSession(session)).protocol
        async with Client(server) as client:
            names = [each.name for each in (await client.list_tools()).tools]
            if narrowed:
                with pytest.raises(MCPError, match="not among the tools of this agent"):
                    await client.call_tool("write_file", {"path": "a"})
            else:
                assert not (await client.call_tool("write_file", {"path": "a"})).is_error
            read = await client.call_tool("read_file", {"path": "a"})
        session.end()
    assert ("write_file" in names) is not narrowed
    assert "read_file" in names
    assert not read.is_error
