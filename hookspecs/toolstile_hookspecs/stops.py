"""Stops: calls that a person has halted, in all processes with one configuration or store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

from toolstile_hookspecs.execution.principal import Principal
from toolstile_hookspecs.selectors import fits
from toolstile_hookspecs.tools import Tool

Scope = Literal["tool", "server", "session", "principal"]
SCOPES: Final = frozenset(get_args(Scope))


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop, made `by` a person `at` a time, perhaps only `until` another.

    It concerns all calls, or only those of the named tool (or glob) or server, of the session, or
    for the principal, who is named by the id, perhaps after the source and a space.
    """

    reason: str
    by: str
    at: datetime
    until: datetime | None = None
    kind: Scope | Literal["all"] = "all"
    name: str = ""

    def concerns(
        self, tools: Iterable[Tool[Any, Any]], principal: Principal | None, session_id: str
    ) -> bool:
        """Tell whether it concerns a call of one of these tools."""
        if self.kind == "principal":
            who = principal
            return who is not None and self.name in {who.id, f"{who.source} {who.id}"}
        if self.kind == "tool":
            return any(fits(tool, self.name) for tool in tools)
        if self.kind == "server":
            return any(tool.origin == self.name for tool in tools)
        return self.kind == "all" or self.name == session_id

    def __str__(self) -> str:
        """Return the calls, the end, the person and the reason."""
        which = "all calls" if self.kind == "all" else f"calls of {self.kind} {self.name}"
        until = "" if self.until is None else f" until {self.until:%F %R} UTC"
        return f"{which}{until}, by {self.by} at {self.at:%F %R} UTC: {self.reason}"
