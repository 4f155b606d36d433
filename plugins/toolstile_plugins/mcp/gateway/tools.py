"""Tools of a server: as it defines them, and the tools of this host that stand for them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp import Client, MCPError

from toolstile_hookspecs import HOST_TIMEOUT, Contents, Tool, ToolContext, ToolResult
from toolstile_hookspecs.selectors import CONSEQUENCES
from toolstile_hookspecs.tools import Category, HostDefault
from toolstile_plugins.mcp.gateway.errors import CUT, cleaned, one_line, told
from toolstile_plugins.mcp.gateway.repair import THE_REST, AnswerRepair
from toolstile_plugins.mcp.gateway.schemas import enforceable
from toolstile_plugins.mcp.settings import ServerSettings, ToolSettings

# --- Definitions


Schema = Mapping[str, Any]

PARTS: Final = ("title", "description", "input_schema", "output_schema", "annotations")


@dataclass(frozen=True, slots=True)
class Definition:
    """A server's own definition of a tool.

    Args:
        name: The server's name for it.
        title: Its name for people.
        description: What it does.
        input_schema: The JSON Schema of its arguments.
        output_schema: The JSON Schema of what is structured in its results.
        annotations: What it is said to do to the world.
        digest: The SHA-256 over all of it, in hex.
    """

    name: str
    title: str | None
    description: str
    input_schema: Schema = field(repr=False)
    output_schema: Schema | None = field(repr=False)
    annotations: Mapping[str, Any]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(self.plain(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())

    def __hash__(self) -> int:
        return hash(self.digest)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"name": self.name, **{part: getattr(self, part) for part in PARTS}}

    def changes_from(self, other: Definition) -> tuple[str, ...]:
        """Return which parts are not as they are in another definition of the tool."""
        return tuple(
            part.replace("_", " ")
            for part in PARTS
            if json.dumps(getattr(self, part), sort_keys=True)
            != json.dumps(getattr(other, part), sort_keys=True)
        )


# --- Listing


PAGES: Final = 200


class Listing(NamedTuple):
    """The tools that a server lists.

    Args:
        tools: Those that can be read.
        left_out: The others, and why.
    """

    tools: tuple[Definition, ...]
    left_out: Mapping[str, str]


async def list_tools(client: Client, repair: AnswerRepair, most: int) -> Listing:
    """Return the tools of a server, from all pages; more than `most` where there are more.

    Of two with one name the first one counts.

    Raises:
        MCPError: When the server does not list any.
    """
    found: dict[str, Definition] = {}
    left_out = repair.left_out = {}
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen and THE_REST not in left_out:
        seen.add(cursor)
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if cursor is not None:
                left_out[THE_REST] = f"page {len(seen)} of the list cannot be read: {told(error)}"
            elif client.server_capabilities.tools is not None:
                raise
            break
        for tool in page.tools:
            if tool.name not in left_out:
                _take(tool, found, left_out)
        cursor = page.next_cursor
        if len(found) > most:
            break
        if cursor in seen and cursor is not None:
            left_out[THE_REST] = f"the list stands still at the cursor {one_line(cursor, 40)!r}"
        elif len(seen) == PAGES:
            left_out[THE_REST] = f"the list has no end after {PAGES} pages"
    return Listing(tuple(found.values()), left_out)


def _take(tool: types.Tool, found: dict[str, Definition], left_out: dict[str, str]) -> None:
    if tool.execution is not None and tool.execution.task_support == "required":
        left_out[tool.name] = "it runs as a task only, which this gateway does not do"
        return
    try:
        found.setdefault(tool.name, definition_of(tool))
    except (RecursionError, ValueError):
        left_out[tool.name] = "its definition is nested too deeply, or is not JSON"


def definition_of(tool: types.Tool) -> Definition:
    """Return a server's definition of a tool."""
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


# --- Tools of this host


MAX_DESCRIPTION: Final = 200
MAX_LONG: Final = 20_000

Call = Callable[[Definition, Any, ToolContext], Awaitable[ToolResult[Contents]]]
"""Sends a call to the server."""


def make_tool(
    name: str, server: str, settings: ServerSettings, definition: Definition, call: Call
) -> Tool[Any, Contents]:
    """Return the tool that stands for a server's.

    Nothing of it is put back, whatever the server says: it counts as contained only if the
    configuration says that it reads.

    Raises:
        DefinitionError: When its schema, or what is configured for it, does not fit.
    """
    known = settings.of_tool(definition.name)
    category = known.category or category_of(definition, settings)

    async def handler(params: Any, *, context: ToolContext) -> ToolResult[Contents]:
        return await call(definition, params, context)

    return Tool[Any, Contents](
        name=name,
        description=known.description or short_description(server, definition),
        long_description=long_description(definition) if known.description is None else None,
        handler=handler,
        params_schema=enforceable(definition.input_schema),
        category=category,
        consequence=known.consequence or CONSEQUENCES[category],
        contained=known.category == "read",
        requires_confirmation=known.requires_confirmation,
        idempotency=None if known.idempotency is None else known.idempotency.config(),
        concurrency=known.concurrency,
        timeout=_timeout(known, settings),
        tags=("mcp", *known.tags),
        wire_name=definition.name,
        origin=server,
    )


def category_of(definition: Definition, settings: ServerSettings) -> Category:
    """Return the category that the server's annotations state, as far as they count.

    A tool without annotations may have any effect; only what it calls harmless by itself is.
    """
    said: Mapping[str, Any] = definition.annotations if settings.annotations else {}
    if said.get("readOnlyHint") is True:
        return "read"
    if said.get("destructiveHint") is True:
        return "delete"
    is_write = said.get("destructiveHint") is False and said.get("openWorldHint") is not True
    return "write" if is_write else "side_effect"


def short_description(server: str, definition: Definition) -> str:
    """Return the beginning of a tool's description; it is never empty."""
    text = one_line(definition.description, MAX_DESCRIPTION)
    text = text or one_line(definition.title or "", MAX_DESCRIPTION)
    return text or one_line(f"{definition.name}, a tool of the MCP server {server}.")


def long_description(definition: Definition) -> str | None:
    """Return a tool's whole description, where that is more than its beginning."""
    text = cleaned(definition.description).strip()
    if len(text) > MAX_LONG:
        text = f"{text[:MAX_LONG]}{CUT} (cut: {len(text):,} characters)"
    return None if text == one_line(text, MAX_DESCRIPTION) else text or None


def _timeout(known: ToolSettings, settings: ServerSettings) -> float | HostDefault | None:
    chosen = known.timeout if known.timeout is not None else settings.timeout
    if chosen is None:
        return HOST_TIMEOUT
    return None if chosen == "none" else chosen
