"""What has to be called before what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolyard_hookspecs import (
    DefinitionError,
    PolicyDecision,
    PolicyState,
    Tool,
    ToolContext,
    ToolResult,
)


@dataclass(frozen=True, kw_only=True)
class SequentialDependencyPolicy:
    """Lets a tool be called only after others have succeeded.

    Args:
        dependencies: From a tool to the tools that must have succeeded before it.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When a tool waits for itself, directly or through others.

    Example:
        >>> SequentialDependencyPolicy(dependencies={"deploy": frozenset({"test", "build"})}).name
        ''
    """

    dependencies: Mapping[str, frozenset[str]]
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse what could never be satisfied."""
        settled = {tool: frozenset(needed) for tool, needed in self.dependencies.items()}
        object.__setattr__(self, "dependencies", settled)
        for tool in settled:
            circle = _circle(tool, settled)
            if circle:
                msg = f"These tools wait for one another in a circle: {' -> '.join(circle)}."
                raise DefinitionError(msg)

    def check(
        self,
        tool: Tool[Any, Any],
        params: Any,
        *,
        context: ToolContext,
    ) -> PolicyDecision:
        """Deny while anything is missing, naming all of it."""
        required = self.dependencies.get(tool.name)
        if not required:
            return PolicyDecision.allow()
        missing = sorted(required - PolicyState.of(context, self.name).invoked_tools)
        if not missing:
            return PolicyDecision.allow()
        return PolicyDecision.deny(
            f"Cannot call {tool.name!r} yet: missing {', '.join(missing)}. Call "
            f"{' and '.join(missing)} first, then retry {tool.name}."
        )

    def on_result(
        self,
        tool: Tool[Any, Any],
        params: Any,
        result: ToolResult[Any],
        *,
        context: ToolContext,
    ) -> None:
        """Remember a success that others wait for."""
        if not result.success or not self._is_awaited(tool.name):
            return
        state = PolicyState.of(context, self.name)
        if tool.name not in state.invoked_tools:
            state.with_tool(tool.name).save(context)

    def _is_awaited(self, tool: str) -> bool:
        return any(tool in needed for needed in self.dependencies.values())


def _circle(start: str, dependencies: Mapping[str, frozenset[str]]) -> list[str]:
    """Return the way from a tool back to itself, or nothing."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for needed in sorted(dependencies.get(way[-1], ())):
            if needed == start:
                return [*way, start]
            if needed not in seen:
                seen.add(needed)
                ways.append([*way, needed])
    return []
