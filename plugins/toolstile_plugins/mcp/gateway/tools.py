"""From what a server says of a tool to a tool of this host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import HOST_TIMEOUT, Contents, Tool, ToolContext, ToolResult
from toolstile_hookspecs.tools import Category, Consequence, HostDefault
from toolstile_plugins.mcp.gateway.definitions import Definition
from toolstile_plugins.mcp.gateway.errors import CUT, cleaned, one_line
from toolstile_plugins.mcp.gateway.schemas import enforceable
from toolstile_plugins.mcp.settings import ServerSettings, ToolSettings

MAX_DESCRIPTION: Final = 200
MAX_LONG: Final = 20_000

Call = Callable[[Definition, Any, ToolContext], Awaitable[ToolResult[Contents]]]
"""Sends a call to the server."""


class Effect(NamedTuple):
    """The category and the consequence of a tool."""

    category: Category
    consequence: Consequence


UNKNOWN: Final = Effect("side_effect", "medium")


def make_tool(
    name: str, server: str, settings: ServerSettings, definition: Definition, call: Call
) -> Tool[Any, Contents]:
    """Return the tool that stands for a server's.

    Nothing of it is put back, whatever the server says: it counts as contained only if the
    configuration says that it reads.

    Args:
        name: What it is called here.
        server: The server's name.
        settings: The server's settings.
        definition: What the server says of it.
        call: Sends a call to the server.

    Raises:
        DefinitionError: When its schema, or what is configured for it, does not fit.
    """
    known = settings.of_tool(definition.name)
    effect = effect_of(definition, settings)

    async def handler(params: Any, *, context: ToolContext) -> ToolResult[Contents]:
        return await call(definition, params, context)

    return Tool[Any, Contents](
        name=name,
        description=known.description or short_description(server, definition),
        long_description=long_description(definition) if known.description is None else None,
        handler=handler,
        params_schema=enforceable(definition.input_schema),
        category=known.category or effect.category,
        consequence=known.consequence or effect.consequence,
        contained=known.category == "read",
        requires_confirmation=known.requires_confirmation,
        idempotency=None if known.idempotency is None else known.idempotency.config(),
        concurrency=known.concurrency,
        timeout=_timeout(known, settings),
        tags=("mcp", *known.tags),
        wire_name=definition.name,
        origin=server,
    )


def effect_of(definition: Definition, settings: ServerSettings) -> Effect:
    """Return what the server's annotations come to, as far as they are to count.

    What it says nothing of may have any effect; only what it calls harmless by itself is.
    """
    said = definition.annotations
    if not settings.annotations:
        return UNKNOWN
    if said.get("readOnlyHint") is True:
        return Effect("read", "low")
    if said.get("destructiveHint") is True:
        return Effect("delete", "high")
    if said.get("destructiveHint") is False:
        return Effect("side_effect" if said.get("openWorldHint") is True else "write", "medium")
    return UNKNOWN


def short_description(server: str, definition: Definition) -> str:
    """Return the beginning of what a tool does, never nothing."""
    told = one_line(definition.description, MAX_DESCRIPTION)
    told = told or one_line(definition.title or "", MAX_DESCRIPTION)
    return told or one_line(f"{definition.name}, a tool of the MCP server {server}.")


def long_description(definition: Definition) -> str | None:
    """Return all of what a tool does, where that is more than its beginning."""
    told = cleaned(definition.description).strip()
    if len(told) > MAX_LONG:
        told = f"{told[:MAX_LONG]}{CUT} (cut: {len(told):,} characters)"
    return None if told == one_line(told, MAX_DESCRIPTION) else told or None


def _timeout(known: ToolSettings, settings: ServerSettings) -> float | HostDefault | None:
    chosen = known.timeout if known.timeout is not None else settings.timeout
    if chosen is None:
        return HOST_TIMEOUT
    return None if chosen == "none" else chosen
