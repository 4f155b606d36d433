"""The policy on dependencies: tools that must be called first."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    PolicyState,
    Tool,
    ToolContext,
    ToolResult,
    ToolSelector,
)
from toolstile_hookspecs.selectors import fits
from toolstile_plugins.policies.checks import check_fields, entries_for


@dataclass(frozen=True, kw_only=True)
class SequentialDependencyPolicy:
    """Lets a tool be called only after others have succeeded, or before others were called.

    A success counts for the rest of the session, whichever section the tool is in.

    Args:
        dependencies: From a tool to the tools that must have succeeded before it. Both may be
            globs. A waiting glob means each matching tool except the tools it waits for; any
            matching tool satisfies an awaited glob.
        any_of: From a tool to tools; one of them must have succeeded before it. Also globs.
        not_after: From a tool to tools after which it needs a decision, also as globs: a page
            by an unknown author, for example. A failure counts, because its text was read.
        otherwise: The decision after these: a person decides (`ask`), or the call is denied.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When a tool waits for itself, directly or through others, or when the
            dependencies are not names by tool.

    Example:
        >>> SequentialDependencyPolicy(dependencies={"deploy": frozenset({"test", "build"})}).name
        ''
    """

    wants_params: ClassVar = False

    dependencies: Mapping[str, AbstractSet[str]] = field(default_factory=dict[str, Any])
    any_of: Mapping[str, AbstractSet[str]] = field(default_factory=dict[str, Any])
    not_after: Mapping[str, AbstractSet[str]] = field(default_factory=dict[str, Any])
    otherwise: Literal["ask", "deny"] = "ask"
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse dependencies that could never be satisfied."""
        check_fields(self)
        if not (self.dependencies or self.any_of or self.not_after):
            msg = "SequentialDependencyPolicy: give dependencies, any_of or not_after."
            raise DefinitionError(msg)
        for key in ("dependencies", "any_of", "not_after"):
            settled = {tool: frozenset(names) for tool, names in getattr(self, key).items()}
            object.__setattr__(self, key, settled)
            if not all(settled.values()):
                free = ", ".join(sorted(tool for tool, names in settled.items() if not names))
                waits = "comes after nothing" if key == "not_after" else "waits for nothing"
                msg = f"SequentialDependencyPolicy: {free} {waits}; name the tools to call first."
                raise DefinitionError(msg)
        for tool in sorted(self.governed):
            circle = _circle(tool, self.dependencies)
            if circle:
                msg = f"These tools wait for one another in a circle: {' -> '.join(circle)}."
                raise DefinitionError(msg)

    @property
    def governed(self) -> frozenset[str]:
        """The names of tools it rules by: the waiting and the awaited ones."""
        return self._awaited.union(self._waiters)

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny while tools are missing, naming all of them and the next calls."""
        if not self.checks(tool):
            return PolicyDecision.allow()
        succeeded = PolicyState.of(context, self.name).invoked_tools
        required = _NOTHING.union(*(_needs(name, self.dependencies) for name in tool.policy_names))
        missing = sorted(required - succeeded)
        if missing:
            steps = [" and ".join(sorted(step)) for step in self._steps_to(missing, succeeded)]
            first, *then = steps
            return PolicyDecision.deny(
                f"Cannot call {tool.label!r} yet: missing {', '.join(missing)}. Call {first} "
                f"first, {''.join(f'then {step}, ' for step in then)}then retry {tool.label}."
            )
        for several in entries_for(tool, self.any_of):
            if several.isdisjoint(succeeded):
                names = " or ".join(sorted(several))
                told = f"call {names} first, then retry {tool.label}."
                return PolicyDecision.deny(f"Cannot call {tool.label!r} yet: {told}")
        seen = succeeded | PolicyState.reserved(context, self.name).invoked_tools
        after = _NOTHING.union(*entries_for(tool, self.not_after)) & seen
        if not after:
            return PolicyDecision.allow()
        told = f"after {', '.join(sorted(after))} was called in this session"
        if self.otherwise == "ask":
            return PolicyDecision.ask(f"A person decides on {tool.label} {told}.")
        return PolicyDecision.deny(
            f"{tool.label} cannot be called {told}. Continue without it, and tell the user "
            "that it was left undone."
        )

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember a success that other tools wait for."""
        names = _meaning(tool, self._awaited)
        if not names:
            return
        state = PolicyState.of(context, self.name)
        if not names <= state.invoked_tools:
            replace(state, invoked_tools=state.invoked_tools | names).save(context)

    def on_failure(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the tool although it failed, because the model has read its text."""
        names = _meaning(tool, _NOTHING.union(*self.not_after.values()))
        state = PolicyState.reserved(context, self.name)
        if not names <= state.invoked_tools:
            replace(state, invoked_tools=state.invoked_tools | names).save(context)

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether the tool waits for others, or does not come after them."""
        return self._waiting.selects(tool)

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether others wait for the tool."""
        return bool(_meaning(tool, self._awaited))

    @cached_property
    def _waiting(self) -> ToolSelector:
        return ToolSelector(tools=self._waiters)

    @cached_property
    def _waiters(self) -> frozenset[str]:
        return frozenset({*self.dependencies, *self.any_of, *self.not_after})

    @cached_property
    def _awaited(self) -> frozenset[str]:
        rules = (self.dependencies, self.any_of, self.not_after)
        return frozenset[str]().union(*(names for rule in rules for names in rule.values()))

    def _steps_to(self, missing: list[str], succeeded: frozenset[str]) -> list[set[str]]:
        """Return the calls to make, in order: each step needs only earlier ones."""
        waiting: set[str] = set()
        unseen = list(missing)
        while unseen:
            name = unseen.pop()
            if name not in waiting:
                waiting.add(name)
                unseen += _needs(name, self.dependencies) - succeeded
        steps: list[set[str]] = []
        while waiting:
            ready = {name for name in waiting if not _needs(name, self.dependencies) & waiting}
            steps.append(ready)
            waiting -= ready
        return steps


_NOTHING: frozenset[str] = frozenset()


@lru_cache(maxsize=1024)
def _meaning(tool: Tool[Any, Any], names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if fits(tool, name))


def _needs(name: str, dependencies: Mapping[str, AbstractSet[str]]) -> AbstractSet[str]:
    return _NOTHING.union(
        *(
            needed
            for key, needed in dependencies.items()
            if key == name
            or (fnmatchcase(name, key) and not any(fnmatchcase(name, first) for first in needed))
        )
    )


def _circle(start: str, dependencies: Mapping[str, AbstractSet[str]]) -> list[str]:
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for needed in sorted(_needs(way[-1], dependencies)):
            if needed == start:
                return [*way, start]
            if needed not in seen:
                seen.add(needed)
                ways.append([*way, needed])
    return []
