"""Tools as clients see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from toolyard_hookspecs import Dialect, HostHandle, SessionProtocol, Tool
from toolyard_plugins.mcp.server.pages import page_of

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
        self._shapes: WeakKeyDictionary[Tool[Any, Any], dict[str, Any]] = WeakKeyDictionary()

    def page(self, session: SessionProtocol | None, cursor: str | None) -> dict[str, Any]:
        """Return a page of the list.

        Args:
            session: The session they can be called in; None for one that has just begun.
            cursor: Where the page before ended.
        """
        tools = self._host.prompt.tools(session)
        page, following = page_of(tools, cursor, self._page_size, lambda tool: tool.name)
        shapes = {"tools": [self._shape(tool) for tool in page]}
        return shapes if following is None else {**shapes, "nextCursor": following}

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return what a tool takes, None for one that is not known."""
        tool = self._host.catalog.get(name)
        if tool is None:
            return None
        schema: Mapping[str, Any] = self._shape(tool)["inputSchema"]
        return schema

    def _shape(self, tool: Tool[Any, Any]) -> dict[str, Any]:
        shape = self._shapes.get(tool)
        if shape is None:
            (shape,) = self._dialect.schemas([tool])
            self._shapes[tool] = shape
        return shape
