"""The base of policies on a selection of tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolstile_hookspecs import Tool, ToolContext, ToolResult, ToolSelector
from toolstile_plugins.policies.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class SelectingPolicy(ToolSelector):
    """A policy on the tools that it selects; it remembers nothing by itself.

    Args:
        tools: The tools it governs, also as globs; all where not given.
        tags: Tags, of which each of these tools has one.
        servers: Servers, or other origins, of which each of these tools comes from one.
        category: Their categories.
        consequence: Their consequences.
        name: The instance's name; made of kind, place and position if not given.
    """

    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        super().__post_init__()

    @property
    def selector(self) -> ToolSelector | None:
        """The tools it governs."""
        return self

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Do nothing."""
