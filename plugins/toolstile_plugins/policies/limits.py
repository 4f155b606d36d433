"""Policies on rates and quotas of calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    Tool,
    ToolContext,
    ToolResult,
    ToolSelector,
)
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.policies.call_counts import CountingScope, take_place
from toolstile_plugins.policies.checks import Count, Seconds, check_fields, entries_for

IN_ALL: Final = "*"
"""Under what a quota counts all calls; no tool can have the name."""


@dataclass(frozen=True, kw_only=True)
class _Counting(ToolSelector):
    """A policy that only counts: it decides as calls are admitted, so that none slips by."""

    wants_params: ClassVar = False

    scope: CountingScope = "session"
    name: str = ""

    @property
    def selector(self) -> ToolSelector | None:
        """The tools it counts."""
        return self

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Check no tool: `reserve` decides."""
        return False

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Follow no tool: a call was counted when it was admitted."""
        return False

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Leave the decision to `reserve`, where no two calls can count the same place."""
        return PolicyDecision.allow()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Do nothing: a call was counted when it was admitted."""


@dataclass(frozen=True, kw_only=True)
class RateLimitPolicy(_Counting):
    """Lets each tool be called so many times within a sliding window.

    An admitted call counts, whatever its outcome: failing in a loop is not free.

    Args:
        max_calls_per_minute: Calls of one tool in any 60 seconds; this, or `max_calls`.
        max_calls: Calls of one tool in any `window`.
        window: The length of the window in seconds.
        tools: The tools it governs, also as globs; all where not given.
        tags: Tags, of which each of these tools has one.
        servers: Servers, or other origins, of which each of these tools comes from one.
        category: Their categories.
        consequence: Their consequences.
        scope: The calls that share the limit: of one `session`, of one `principal`, or all
            (`global`). What is beyond a session is counted where `[plugins.sessions]` says.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: Unless exactly one of the two numbers is given, and positive.
    """

    max_calls_per_minute: Count | None = None
    max_calls: Count | None = None
    window: Seconds = 60.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_fields(self)
        super().__post_init__()
        if (self.max_calls is None) == (self.max_calls_per_minute is None):
            msg = "RateLimitPolicy: give either max_calls_per_minute or max_calls with window."
            raise DefinitionError(msg)
        if self.most < 1 or not self.window > 0:
            msg = "RateLimitPolicy: the number of calls and the window must be positive."
            raise DefinitionError(msg)

    @property
    def most(self) -> int:
        """Calls allowed within one window."""
        return self.max_calls if self.max_calls is not None else self.max_calls_per_minute or 0

    @property
    def seconds(self) -> float:
        """The length of the window in seconds."""
        return self.window if self.max_calls is not None else 60.0

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Count the call, or deny it and say how long to wait."""
        most, window = self.most, self.seconds
        place = take_place(context, self.name, tool.name, most, window=window, scope=self.scope)
        if place.granted:
            return PolicyDecision.allow()
        wait = math.ceil(place.wait or window)
        return PolicyDecision.deny(
            f"Rate limit exceeded: {place.used} calls of {tool.name} in the last "
            f"{counted(window, 'second')}, {most} are allowed. Wait "
            f"{counted(wait, 'second')}, then retry."
        )


@dataclass(frozen=True, kw_only=True)
class QuotaPolicy(_Counting):
    """Lets tools be called so many times, in all and each.

    An admitted call counts, whatever its outcome.

    Args:
        max_calls: Calls in all, None for any number.
        per_tool: Calls of single tools, or of each that fits a glob; of several globs the least.
        tools: The tools that count towards `max_calls`, also as globs; all where not given.
        tags: Tags, of which each of these tools has one.
        servers: Servers, or other origins, of which each of these tools comes from one.
        category: Their categories.
        consequence: Their consequences.
        scope: The calls that share the limit: of one `session`, of one `principal`, or all
            (`global`). What is beyond a session is counted where `[plugins.sessions]` says.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When nothing is limited, or a number is negative.
    """

    max_calls: Count | None = None
    per_tool: Mapping[str, Count] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_fields(self)
        super().__post_init__()
        if self.max_calls is None and not self.per_tool:
            msg = "QuotaPolicy: give max_calls, per_tool or both; it limits nothing."
            raise DefinitionError(msg)
        if min([self.max_calls or 0, *self.per_tool.values()]) < 0:
            raise DefinitionError("QuotaPolicy: a quota cannot be negative.")

    @property
    def selector(self) -> ToolSelector | None:
        """The tools it counts, None where single ones may be others than those it selects."""
        return None if self.per_tool else self

    @property
    def governed(self) -> AbstractSet[str]:
        """The names of single tools it limits."""
        return frozenset(self.per_tool)

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return what it selects by and no tool has."""
        return self.faults(tools, may_come) if self.per_tool else []

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Count the call, or deny it and say what is used up."""
        most_in_all = self.max_calls if self.selects(tool) else None
        most = min(entries_for(tool, self.per_tool), default=None)
        if most is None and most_in_all is None:
            return PolicyDecision.allow()
        wanted = ((IN_ALL, most_in_all, "calls"), (tool.name, most, f"calls of {tool.name}"))
        for key, places, what in wanted:
            if places is not None:
                place = take_place(context, self.name, key, places, scope=self.scope)
                if not place.granted:
                    # What was taken before is put back with the denial.
                    return PolicyDecision.deny(_exceeded(place.used, places, what))
        return PolicyDecision.allow()


def _exceeded(used: float, most: int, what: str) -> str:
    return (
        f"Quota exceeded: {used} of {most} {what} are used. It cannot be called again; go "
        "on without it."
    )
