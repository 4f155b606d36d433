"""`completion/complete`: how what was typed may go on."""

from __future__ import annotations

from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompletionArgument,
    PromptReference,
)

from toolstile_hookspecs import ExecutorHandle
from toolstile_plugins.mcp.server.prompts import PromptList
from toolstile_plugins.mcp.server.workspace import PARAMETER, WorkspaceResources

MOST: Final = 100
"""How many values the protocol allows."""


class Completions:
    """Suggests values: paths for the workspace's template; nothing is known of prompts' arguments.

    Args:
        prompts: What prompts there are.
        workspace: The workspace, where it is served.
    """

    def __init__(self, prompts: PromptList, workspace: WorkspaceResources | None) -> None:
        self._prompts = prompts
        self._workspace = workspace

    async def of(self, executor: ExecutorHandle, params: CompleteRequestParams) -> dict[str, Any]:
        """Return the values that go on from what was typed.

        Raises:
            MCPError: When it is of a prompt or a template that there is not.
        """
        if isinstance(params.ref, PromptReference):
            self._prompts.check(executor.session, params.ref.name)
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
