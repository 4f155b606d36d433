"""Tools as clients see them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast
from weakref import WeakKeyDictionary

from toolstile_hookspecs import DefinitionError, Dialect, HostHandle, SessionProtocol, Tool
from toolstile_plugins.mcp.server.pages import page_of

log = logging.getLogger("toolstile.mcp")

DIALECT = "mcp"


class ToolList:
    """Describes the tools that can be called, in the order of the prompt.

    Args:
        host: The host.
        page_size: How many a page has.
    """

    def __init__(self, host: HostHandle, page_size: int) -> None:
        self._host = host
        self._page_size = page_size
        self._dialect: Dialect = host.dialect(DIALECT)
        self._shapes: WeakKeyDictionary[Tool[Any, Any], dict[str, Any] | None] = WeakKeyDictionary()

    def page(self, session: SessionProtocol | None, cursor: str | None) -> dict[str, Any]:
        """Return a page of the list.

        Args:
            session: The session they can be called in; None for one that has just begun.
            cursor: Where the page before ended.
        """
        tools = self._host.prompt.tools(session)
        page, more = page_of(tools, cursor, self._page_size, lambda tool: tool.name)
        known = [shape for shape in map(self._shape, page) if shape is not None]
        return {"tools": known, **more}

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return what a tool takes, None for one that is not known."""
        tool = self._host.catalog.get(name)
        shape = None if tool is None else self._shape(tool)
        return None if shape is None else cast("Mapping[str, Any]", shape["inputSchema"])

    def _shape(self, tool: Tool[Any, Any]) -> dict[str, Any] | None:
        if tool not in self._shapes:
            self._shapes[tool] = self._described(tool)
        return self._shapes[tool]

    def _described(self, tool: Tool[Any, Any]) -> dict[str, Any] | None:
        """Return what clients are told of a tool, None where its params have no JSON Schema."""
        try:
            (shape,) = self._dialect.schemas([tool])
        except DefinitionError as error:
            fault = str(error).removeprefix(f"Tool {tool.name!r}: ")
            log.warning("%s is left out of the list of tools: %s", tool.name, fault)
            return None
        return shape
