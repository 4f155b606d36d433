"""Policies on categories of tools: allow, deny, or ask a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    Tool,
    ToolContext,
    ToolResult,
    ToolSelector,
)
from toolstile_hookspecs.selectors import fits
from toolstile_hookspecs.tools import Category, Consequence
from toolstile_plugins.policies.checks import check_fields

Rule = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, kw_only=True)
class CategoryPolicy:
    """Allows, asks or denies by a tool's category and consequence; the stronger rule wins.

    Args:
        category: The rule for each category; `allow` for those not named.
        consequence: The rule for each consequence; `allow` for those not named.
        tools: The tools it governs, also as globs; all where not given.
        tags: Tags, of which each of these tools has one.
        servers: Servers, or other origins, of which each of these tools comes from one.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When it rules nothing, or names a kind or a rule that there is not.

    Example:
        >>> CategoryPolicy(category={"delete": "ask"}, consequence={"high": "deny"}).name
        ''
    """

    wants_params: ClassVar = False

    category: Mapping[Category, Rule] = field(default_factory=dict[Category, Rule])
    consequence: Mapping[Consequence, Rule] = field(default_factory=dict[Consequence, Rule])
    tools: AbstractSet[str] | None = None
    tags: AbstractSet[str] | None = None
    servers: AbstractSet[str] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        """Check that there is a rule, and something to govern."""
        check_fields(self)
        if not self.category and not self.consequence:
            msg = "CategoryPolicy: give a rule, such as category = {delete = 'ask'}."
            raise DefinitionError(msg)
        _ = self.selector

    @cached_property
    def selector(self) -> ToolSelector:
        """The tools it governs."""
        return ToolSelector(tools=self.tools, tags=self.tags, servers=self.servers)

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return which of its names mean only tools that none of its rules is about."""
        found: list[str] = []
        for name in sorted(name for name in self.tools or () if not may_come(name)):
            meant = [tool for tool in tools if fits(tool, name)]
            if meant and not any(map(self.checks, meant)):
                shown = f"{meant[0].name} has category {meant[0].category} and "
                shown += f"{meant[0].consequence} consequence"
                found.append(f"has no rule for what it means by {name!r}: {shown}")
        return found

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether there is a rule about such tools."""
        return self._rules_on(tool) != ("allow", "allow")

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Decide by the stronger of the two rules."""
        category, consequence = self._rules_on(tool)
        if category == "allow" and consequence == "allow":
            return PolicyDecision.allow()
        rule: Rule = "deny" if "deny" in {category, consequence} else "ask"
        reasons = [f"category {tool.category}"] if category == rule else []
        reasons += [f"{tool.consequence} consequence"] if consequence == rule else []
        kind = f"tools of {' and '.join(reasons)}"
        if rule == "deny":
            return PolicyDecision.deny(
                f"{tool.name} cannot be called here: {kind} are not allowed. Do without it."
            )
        return PolicyDecision.ask(f"A person decides on {kind}, such as {tool.name}.")

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Do nothing: it remembers nothing."""

    def _rules_on(self, tool: Tool[Any, Any]) -> tuple[Rule, Rule]:
        category = self.category.get(tool.category, "allow")
        return category, self.consequence.get(tool.consequence, "allow")
