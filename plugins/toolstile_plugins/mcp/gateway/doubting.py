"""The rule that a person is asked about a tool that is not what it was when it was approved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from toolstile_hookspecs import PolicyDecision, Tool, ToolContext, ToolResult
from toolstile_plugins.mcp.gateway.standing import CallKey, Doubt, Standing
from toolstile_plugins.mcp.gateway.wording import one_line

SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class DoubtPolicy:
    """Lets a person decide on tools that have changed, or that are new.

    Args:
        name: The instance's name.
        standing: What was approved, and what there is.
        key_of: By what a call is known.
    """

    wants_params: ClassVar = False

    name: str
    standing: Standing
    key_of: Callable[[ToolContext], CallKey]

    def check(
        self,
        tool: Tool[Any, Any],
        params: Any,  # noqa: ARG002 - the contract's signature
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        """Ask where there is a doubt, saying what has changed."""
        own = tool.wire_name or tool.name
        doubt = self.standing.asks(self.key_of(context), own)
        return PolicyDecision.allow() if doubt is None else PolicyDecision.ask(_reason(tool, doubt))

    def on_result(
        self,
        tool: Tool[Any, Any],
        params: Any,
        result: ToolResult[Any],
        *,
        context: ToolContext,
    ) -> None:
        """Do nothing: what was approved is remembered before the call is sent."""


def _reason(tool: Tool[Any, Any], doubt: Doubt) -> str:
    if doubt.approved is None:
        said = one_line(doubt.found.description, SHOWN)
        return f"{tool.name} of the MCP server {tool.origin} is new. It says of itself: {said}"
    told = (
        f"{tool.name} of the MCP server {tool.origin} has changed since it was approved: "
        f"{', '.join(doubt.changes)}."
    )
    if "description" in doubt.changes:
        told += f" It now says of itself: {one_line(doubt.found.description, SHOWN)}"
    return told
