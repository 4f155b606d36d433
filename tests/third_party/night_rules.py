"""A plugin of a stranger's: what is for the day only, and what runs on a worker of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from toolstile_hookspecs import (
    ConfigurationError,
    HostHandle,
    PolicyDecision,
    Tool,
    ToolContext,
    ToolResult,
    ToolSelector,
    hookimpl,
)


@dataclass(frozen=True, kw_only=True)
class Night(ToolSelector):
    """Denies its tools at night; it has the keys of a selector."""

    until: int = 6
    name: str = ""

    @property
    def selector(self) -> ToolSelector:
        """The tools for the day only."""
        return self

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny by the clock alone: the host asks about the selected tools only."""
        if context.clock.now().hour < self.until:
            return PolicyDecision.deny(f"{tool.name} sleeps until {self.until}. Use another tool.")
        return PolicyDecision.allow()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember nothing."""


class Workers(BaseModel):
    """The table `[plugins.night_rules]`."""

    on_workers: ToolSelector = ToolSelector()


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the table."""
    return Workers


@hookimpl
def toolstile_policies() -> dict[str, type[Any]]:
    """Offer the kind."""
    return {"night": Night}


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: Workers) -> Iterator[None]:
    """Refuse a table that names what no tool has."""
    if faults := settings.on_workers.faults([*host.catalog]):
        told = f"[plugins.night_rules] on_workers {'; it '.join(faults)}. Correct it."
        raise ConfigurationError(told)
    yield


@hookimpl
def toolstile_execute(
    tool: Tool[Any, Any], params: Any, settings: Workers
) -> Callable[..., ToolResult[str]] | None:
    """Run what is meant for workers elsewhere."""
    if not settings.on_workers.selects(tool):
        return None
    return lambda params, *, context: ToolResult.ok(f"{tool.name} ran on a worker")
