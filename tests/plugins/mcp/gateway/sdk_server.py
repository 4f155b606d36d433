"""A server made with the official SDK: its arguments are a transport, `stdio` or a port."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

server = MCPServer("demo", log_level="CRITICAL")


def touch(folder: str, name: str) -> None:
    Path(folder, name).touch()


@server.tool()
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    return CallToolResult(content=[TextContent(text="It is broken.")], is_error=True)


@server.tool()
def trace(ctx: Context) -> str:
    """Tell which trace a call belongs to."""
    meta = ctx.request_context.meta or {}
    return str(dict(meta).get("traceparent"))


class Answer(BaseModel):
    """The answer that a person is asked for."""

    sure: bool


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask the person at the client."""
    return str(await ctx.elicit("Sure?", Answer))


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, and report how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "counted"


@server.tool()
async def wait(folder: str) -> str:
    """Wait to be cancelled."""
    touch(folder, "waiting")
    try:
        await anyio.sleep(3600)
    except BaseException:
        touch(folder, "stopped")
        raise
    return "never"


@server.tool()
def exit_now() -> str:
    """End the whole process."""
    os._exit(1)


@server.tool()
def everything() -> CallToolResult:
    """Return contents of every kind."""
    return CallToolResult(
        content=[
            TextContent(text="All:"),
            ImageContent(data="aGk=", mime_type="image/png"),
            AudioContent(data="aGk=", mime_type="audio/wav"),
            ResourceLink(uri="demo://it", name="it"),
            EmbeddedResource(resource=TextResourceContents(uri="demo://it", text="inside")),
        ]
    )


@server.tool()
async def grow(ctx: Context) -> str:
    """Add a tool, and tell of it in the way of either era."""
    server.add_tool(shrink, name="shrink")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


def shrink() -> str:
    """Be there."""
    return "shrunk"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
