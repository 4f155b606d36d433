"""Asking a server for its tools."""

from __future__ import annotations

from typing import Final

import mcp_types as types
from mcp import Client

from toolstile_plugins.mcp.gateway.definitions import Definition
from toolstile_plugins.mcp.gateway.faults import ServerFault

PAGES: Final = 200


async def list_tools(client: Client, most: int) -> tuple[Definition, ...]:
    """Return all tools of a server, from all pages.

    Of two with one name the first one counts.

    Args:
        client: What speaks to the server.
        most: How many there may be.

    Raises:
        ServerFault: When there are more of them, or pages without end.
    """
    if client.server_capabilities.tools is None:
        return ()
    found: dict[str, Definition] = {}
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            found.setdefault(tool.name, definition_of(tool))
        if len(found) > most:
            raise ServerFault(f"it has more than {most} tools; raise max_tools, or do without it")
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found.values())
    raise ServerFault(f"its list of tools has no end after {PAGES} pages")


def definition_of(tool: types.Tool) -> Definition:
    """Return what a server says of a tool."""
    said = tool.annotations
    return Definition(
        name=tool.name,
        title=tool.title or (None if said is None else said.title),
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations={}
        if said is None
        else said.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"title"}),
    )
