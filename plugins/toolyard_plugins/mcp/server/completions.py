"""`completion/complete`: how what was typed may go on."""

from __future__ import annotations

from typing import Any, Final

from mcp_types import CompleteRequestParams, PromptReference

from toolyard_hookspecs import ExecutorHandle
from toolyard_plugins.mcp.server.prompts import PromptList
from toolyard_plugins.mcp.server.workspace import WorkspaceResources

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
            MCPError: When it is of a prompt that there is not.
        """
        if isinstance(params.ref, PromptReference):
            self._prompts.check(executor.session, params.ref.name)
            values: list[str] = []
        elif self._workspace is None:
            values = []
        else:
            values = await self._workspace.paths(executor, params.argument.value)
        return {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}
