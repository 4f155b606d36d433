"""Policies on categories of tools: allow, deny, or ask a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Literal

from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    Tool,
    ToolContext,
    ToolSelector,
)
from toolstile_hookspecs.selectors import fits
from toolstile_hookspecs.tools import Category, Consequence
from toolstile_plugins.policies.checks import Stateless, check_fields, entries_for

Rule = Literal["allow", "ask", "deny"]
_STRICTNESS: Final[tuple[Rule, ...]] = ("allow", "ask", "deny")


@dataclass(frozen=True, kw_only=True)
class CategoryPolicy(Stateless):
    """Allows, asks or denies by a tool's category and consequence; the stronger rule wins.

    An explicit rule `allow` permits a tool that is denied by default.

    Args:
        category: The rule for each category; `allow` for those not named.
        consequence: The rule for each consequence; `allow` for those not named.
        tools: The tools it governs, also as globs; by default all. Or a table with the rule for
            each: a tool's own wins over its globs', and of several globs the strictest.
        tags: Each of these tools has one of these tags.
        servers: Each of these tools comes from one of these servers, or other origins.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When it rules nothing, or names an unknown kind or rule.

    Example:
        >>> CategoryPolicy(category={"delete": "ask"}, consequence={"high": "deny"}).name
        ''
    """

    wants_params: ClassVar = False

    category: Mapping[Category, Rule] = field(default_factory=dict[Category, Rule])
    consequence: Mapping[Consequence, Rule] = field(default_factory=dict[Consequence, Rule])
    tools: Mapping[str, Rule] | AbstractSet[str] | None = None
    tags: AbstractSet[str] | None = None
    servers: AbstractSet[str] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.category and not self.consequence and not self._by_name:
            msg = "CategoryPolicy: give a rule, such as category = {delete = 'ask'}."
            raise DefinitionError(msg)
        _ = self.selector

    @cached_property
    def selector(self) -> ToolSelector:
        """The governed tools."""
        # If names have their own rules, the others hold for all tools.
        names = None if self._by_name and (self.category or self.consequence) else self.tools
        tools = None if names is None else frozenset(names)
        return ToolSelector(tools=tools, tags=self.tags, servers=self.servers)

    @property
    def governed(self) -> frozenset[str]:
        """The names of tools with their own rules."""
        return frozenset(self._by_name)

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return the names whose tools have no rule."""
        found: list[str] = []
        for name in sorted(name for name in self.tools or () if not may_come(name)):
            meant = [tool for tool in tools if fits(tool, name)]
            if meant and not any(map(self.checks, meant)):
                shown = f"{meant[0].name} has category {meant[0].category} and "
                shown += f"{meant[0].consequence} consequence"
                found.append(f"has no rule for the tools of {name!r}: {shown}")
        return found

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether a rule applies to the tool."""
        return bool(self._rules_on(tool))

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Decide by the strictest of the rules."""
        rules = self._rules_on(tool)
        if not rules:
            return PolicyDecision.allow()
        rule = max(rules.values(), key=_STRICTNESS.index)
        reasons = [what for what, each in rules.items() if each == rule]
        kind = f"tools of {' and '.join(reasons)}"
        if rule == "deny":
            return PolicyDecision.deny(
                f"{tool.label} cannot be called here: {kind} are not allowed. Continue without it."
            )
        if rule == "ask":
            return PolicyDecision.ask(f"A person decides on {kind}, such as {tool.label}.")
        # Because of its reason, it counts as more than no objection.
        return PolicyDecision(allowed=True, reason=f"{kind} are allowed.")

    @property
    def _by_name(self) -> Mapping[str, Rule]:
        return self.tools if isinstance(self.tools, Mapping) else {}

    def _rules_on(self, tool: Tool[Any, Any]) -> dict[str, Rule]:
        """Return the rules about a tool, by the quality of the tool."""
        found: dict[str, Rule] = {}
        if tool.category in self.category:
            found[f"category {tool.category}"] = self.category[tool.category]
        if tool.consequence in self.consequence:
            found[f"{tool.consequence} consequence"] = self.consequence[tool.consequence]
        if own := entries_for(tool, self._by_name):
            found[f"name {tool.name}"] = max(own, key=_STRICTNESS.index)
        return found
