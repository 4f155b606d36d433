"""Serving over standard input and output, where nothing else may be written."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from mcp.server.stdio import stdio_server

from toolstile_hookspecs import HostHandle
from toolstile_plugins.mcp.server.changes import TOLD, Changes
from toolstile_plugins.mcp.server.choosing import OneSession
from toolstile_plugins.mcp.server.executors import executors_of
from toolstile_plugins.mcp.server.flow import regulated
from toolstile_plugins.mcp.server.serving import HostServer
from toolstile_plugins.mcp.server.sessions import ServedSession
from toolstile_plugins.mcp.server.settings import ServeSettings

ALONE: Final = (
    "Waiting for an MCP client on standard input, which is a terminal; clients start this command "
    "themselves. Ctrl-C ends it.\n"
)


async def serve_stdio(host: HostHandle, settings: ServeSettings) -> None:
    """Serve the client at the other end of the pipe until it leaves."""
    if sys.stdin.isatty():
        sys.stderr.write(ALONE)
        sys.stderr.flush()
    session = ServedSession(executors_of(host)(None, None))
    changes = Changes(host)
    server = HostServer(host, settings, OneSession(session), changes)
    following = asyncio.create_task(changes.follow())
    try:
        async with (
            stdio_server() as (read, write),
            regulated(read, write) as (incoming, outgoing),
        ):
            # What was printed before goes where all that is printed from now on goes: to stderr.
            sys.stdout.flush()
            try:
                await server.protocol.run(
                    incoming, outgoing, server.protocol.create_initialization_options(TOLD)
                )
            finally:
                sys.stdout.flush()
    finally:
        following.cancel()
        await server.caller.finish()
        session.end()
