"""A tool as its server defines it, and the hash by which a change is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp import Client

from toolstile_plugins.mcp.gateway.errors import ServerFault

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
        """Take the hash."""
        text = json.dumps(self.plain(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        object.__setattr__(self, "digest", hashlib.sha256(text.encode()).hexdigest())

    def __hash__(self) -> int:
        """Return a hash, by which caches find what belongs to it."""
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


def from_plain(values: Mapping[str, Any]) -> Definition:
    """Return the definition that `Definition.plain` gave.

    Raises:
        KeyError: When a part is missing.
        TypeError: When it is none.
    """
    return Definition(**{name: values[name] for name in ("name", *PARTS)})


# --- Listing


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
