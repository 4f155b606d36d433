"""The tools of all plugins, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolstile.plugins.contributions import Contribution
from toolstile.plugins.wire_names import serving_wire_names
from toolstile_hookspecs import Tool


@dataclass(frozen=True, slots=True)
class ToolIndex:
    """All tools at one time; never changed, only replaced.

    Args:
        tools: By name, in order.
        wire: By wire name, where no tool has it as its name.
        owners: The plugin of each tool, by the tool's name.
    """

    tools: Mapping[str, Tool[Any, Any]] = field(default_factory=dict[str, Tool[Any, Any]])
    wire: Mapping[str, Tool[Any, Any]] = field(default_factory=dict[str, Tool[Any, Any]])
    owners: Mapping[str, str] = field(default_factory=dict[str, str])


def index(contributions: Iterable[tuple[str, Contribution]]) -> ToolIndex:
    """Return the index of what plugins, by name, contribute."""
    there = list(contributions)
    tools = {tool.name: tool for _, each in there for tool in each.tools}
    owners = {tool.name: plugin for plugin, each in there for tool in each.tools}
    # Wire names of plugins with a prefix give way.
    settled = sorted(there, key=lambda pair: bool(pair[1].prefix))
    wire = serving_wire_names(tool for _, each in settled for tool in each.tools)
    return ToolIndex(tools, wire, owners)


class PluginCatalog:
    """The catalog as hooks and hosts see it; always up to date.

    Args:
        current: Gives the index that holds now.
        renew: Asks a plugin for its sections again.
    """

    def __init__(self, current: Callable[[], ToolIndex], renew: Callable[[str], None]) -> None:
        self._current = current
        self._renew = renew

    def get(self, name: str) -> Tool[Any, Any] | None:
        """Return the tool of that name or wire name, or None."""
        known = self._current()
        return known.tools.get(name) or known.wire.get(name)

    def names(self) -> tuple[str, ...]:
        """Return all names, in order."""
        return tuple(self._current().tools)

    def plugin_of(self, name: str) -> str | None:
        """Return the plugin that has the tool, by its name or wire name, or None."""
        tool = self.get(name)
        return None if tool is None else self._current().owners.get(tool.name)

    def invalidate(self, plugin: str) -> None:
        """Ask a plugin for its sections again; its tools may have changed.

        Raises:
            PluginError: When there is no such plugin, or what it offers now cannot be taken;
                then it keeps the tools it had.
        """
        self._renew(plugin)

    def __len__(self) -> int:
        return len(self._current().tools)

    def __iter__(self) -> Iterator[Tool[Any, Any]]:
        """Yield the tools in order."""
        return iter(tuple(self._current().tools.values()))
