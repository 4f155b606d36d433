"""The servers that offer `add` over MCP: the SDK's, FastMCP's, and a host behind Toolstile's.

As a program it serves the one that is named: over HTTP, or `--stdio`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from full_host import full_host, sections_of
from mcp.server import MCPServer
from starlette.types import ASGIApp
from workload import add_async

from toolstile import Host, MarkdownSection, hookimpl, tool
from toolstile_plugins.mcp.server.http import Address, application
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of
from toolstile_plugins.mcp.server.stdio import serve_stdio
from toolstile_plugins.mcp.settings import ServeSettings

try:
    from fastmcp import FastMCP
except ImportError:
    # Its rows are left out then.
    FastMCP = None

SDK: Final = "the bare SDK"
FASTMCP: Final = "FastMCP"
TOOLSTILE: Final = "Toolstile"
STDIO: Final = "--stdio"
OTHERS: Final = (TOOLSTILE,) if FastMCP is None else (TOOLSTILE, FASTMCP)
"""The servers that are compared with the SDK."""


def sdk_server() -> MCPServer:
    """Return the official SDK's server."""
    server = MCPServer("sdk", log_level="CRITICAL")
    server.add_tool(add_async, name="add")
    return server


def fastmcp_server() -> Any:
    """Return FastMCP's server."""
    server: Any = FastMCP("fastmcp")
    server.tool(add_async, name="add")
    return server


@contextmanager
def toolstile_host() -> Iterator[Host]:
    """Give the default host with the one tool."""
    with full_host(_Sums()) as host:
        yield host


class _Sums:
    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection[Any]]:
        return sections_of(tool(name="add")(add_async))


@contextmanager
def in_process(name: str) -> Iterator[Any]:
    """Give a server that a client in this process can talk to."""
    if name == SDK:
        yield sdk_server()
    elif name == FASTMCP:
        yield fastmcp_server()._mcp_server
    else:
        with toolstile_host() as host:
            session = ServedSession(executors_of(host)(None, None))
            yield HostServer(host, ServeSettings(), OneSession(session)).protocol
            session.end()


@contextmanager
def _toolstile_app(port: int) -> Iterator[ASGIApp]:
    with toolstile_host() as host:
        yield application(host, ServeSettings(), Address("127.0.0.1", port))


@contextmanager
def _sdk_app(_port: int) -> Iterator[ASGIApp]:
    yield sdk_server().streamable_http_app()


@contextmanager
def _fastmcp_app(_port: int) -> Iterator[ASGIApp]:
    yield fastmcp_server().http_app()


APPS: Final[Mapping[str, Callable[[int], Any]]] = {
    SDK: _sdk_app,
    FASTMCP: _fastmcp_app,
    TOOLSTILE: _toolstile_app,
}


def serve(name: str) -> None:
    """Serve over HTTP on a free port, which is printed."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    # As a server does that makes its socket itself.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = listening.getsockname()[1]
    with APPS[name](port) as app:
        print(port, flush=True)
        config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_keep_alive=75)
        uvicorn.Server(config).run(sockets=[listening])


def serve_by_stdio(name: str) -> None:
    """Serve the client at the other end of the pipe."""
    if name == SDK:
        sdk_server().run("stdio")
    elif name == FASTMCP:
        fastmcp_server().run("stdio", show_banner=False)
    else:
        with toolstile_host() as host:
            asyncio.run(serve_stdio(host, ServeSettings()))


if __name__ == "__main__":
    (serve_by_stdio if STDIO in sys.argv else serve)(sys.argv[1])
