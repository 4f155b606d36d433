"""Tools as clients see them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CompleteRequestParams, CompletionArgument, PromptReference

from toolstile_hookspecs import (
    DefinitionError,
    Dialect,
    ExecutorHandle,
    HostHandle,
    SessionProtocol,
    Tool,
)
from toolstile_plugins.mcp.server.prompts import PromptList
from toolstile_plugins.mcp.server.request import refuse_cursor
from toolstile_plugins.mcp.server.resources import PARAMETER, WorkspaceResources

log = logging.getLogger("toolstile.mcp")

DIALECT = "mcp"


class ToolList:
    """Describes the tools that can be called, in the order of the prompt."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host
        self._dialect: Dialect = host.dialect(DIALECT)
        self._shapes: WeakKeyDictionary[Tool[Any, Any], dict[str, Any] | None] = WeakKeyDictionary()

    def page(self, session: SessionProtocol | None, cursor: str | None) -> dict[str, Any]:
        """Return the whole list: many clients read the first page only.

        Args:
            session: The session they can be called in; None for one that has just begun.
            cursor: Where another list ended.

        Raises:
            MCPError: When there is a cursor, which cannot be of this list.
        """
        refuse_cursor(cursor)
        tools = self._host.prompt.tools(session)
        return {"tools": [shape for shape in map(self._shape, tools) if shape is not None]}

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's params, None for one that is not known."""
        tool = self._host.catalog.get(name)
        shape = None if tool is None else self._shape(tool)
        return None if shape is None else cast("Mapping[str, Any]", shape["inputSchema"])

    def _shape(self, tool: Tool[Any, Any]) -> dict[str, Any] | None:
        """Return a tool as clients see it, None where its params have no JSON Schema."""
        if tool not in self._shapes:
            try:
                (self._shapes[tool],) = self._dialect.schemas([tool])
            except DefinitionError as error:
                self._shapes[tool] = None
                fault = str(error).removeprefix(f"Tool {tool.name!r}: ")
                log.warning("%s is left out of the list of tools: %s", tool.name, fault)
        return self._shapes[tool]


# --- Completions


MOST: Final = 100
"""The maximum number of values in the protocol."""


class Completions:
    """Suggests paths for the template of the workspace, and nothing for arguments of prompts."""

    def __init__(self, prompts: PromptList, workspace: WorkspaceResources | None) -> None:
        self._prompts = prompts
        self._workspace = workspace

    async def of(self, executor: ExecutorHandle, params: CompleteRequestParams) -> dict[str, Any]:
        """Return the values with the beginning that was typed.

        Raises:
            MCPError: When it is of a prompt or a template that there is not.
        """
        if isinstance(params.ref, PromptReference):
            self._prompts.named(executor.session, params.ref.name)
            values: list[str] = []
        else:
            values = await self._paths(executor, params.ref.uri, params.argument)
        return {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}

    async def _paths(
        self, executor: ExecutorHandle, uri: str, argument: CompletionArgument
    ) -> list[str]:
        if self._workspace is None or self._workspace.path_of(uri) is None:
            raise MCPError(INVALID_PARAMS, f"There is no template {uri!r}. List those there are.")
        if argument.name != PARAMETER:
            return []
        return await self._workspace.paths(executor, argument.value)
