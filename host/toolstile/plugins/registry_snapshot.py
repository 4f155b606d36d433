"""The snapshot of all plugins at one time, and the catalog that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolstile.plugins.contributions import PolicyKinds
from toolstile.plugins.hook_manager import HookManager, Implementation
from toolstile.plugins.prefixing import serving_wire_names
from toolstile.plugins.reports import LoadedPlugin
from toolstile_hookspecs import Binding, Section, Tool

Calls = Mapping[str, tuple[Implementation, ...]]
Tools = Mapping[str, Tool[Any, Any]]


@dataclass(frozen=True, slots=True)
class RegistrySnapshot:
    """The snapshot that readers see; it is replaced as a whole and never changed.

    Args:
        generation: A number that grows with every change.
        implementations: By hook, in the order of calling.
        wrappers: By hook, the outermost first.
        sections: Of all plugins, in the order of registration.
        bindings: Of all plugins, likewise; a plugin's state stands for its own binding of the type.
        providers: The plugin that has bound it, by kind of resource.
        policies: What makes each kind of policy.
        tools: The tools by name, in order.
        wire: The tools by wire name, where no tool has it as its name.
        owners: The plugin of each tool, by the tool's name.
        withheld: How a person asks for tools that are offered on request only, by their names.
    """

    generation: int
    implementations: Calls
    wrappers: Calls
    sections: tuple[Section, ...]
    bindings: tuple[Binding[Any], ...]
    providers: Mapping[type[Any], str]
    policies: Mapping[str, type[Any]]
    tools: Tools
    wire: Tools
    owners: Mapping[str, str]
    withheld: Mapping[str, str]


def snapshot_of(
    records: Mapping[str, LoadedPlugin],
    manager: HookManager,
    generation: int,
    states: Mapping[str, object],
) -> RegistrySnapshot:
    """Return what the loaded plugins offer now, their hooks bound to these states."""
    offered = {name: record.contribution for name, record in records.items()}
    settings = {name: offer.settings for name, offer in offered.items()}
    calls = {hook: tuple(manager.in_order(hook, settings, states)) for hook in manager.arguments}
    bindings = {each.kind: each for offer in offered.values() for each in offer.bindings}
    providers = {each.kind: name for name, offer in offered.items() for each in offer.bindings}
    types = [type(state) for state in states.values()]
    for name, state in states.items():
        kind = type(state)
        # A type that is built in, or that two plugins have, does not name one object.
        is_own = providers.get(kind, name) == name and types.count(kind) == 1
        if is_own and kind.__module__ != "builtins":
            bindings[kind] = Binding[Any].instance(kind, state)
    # Wire names of plugins with a prefix give way.
    settled = sorted(offered.values(), key=lambda each: bool(each.prefix))
    return RegistrySnapshot(
        generation=generation,
        implementations=_only(calls, wrappers=False),
        wrappers=_only(calls, wrappers=True),
        sections=tuple(section for offer in offered.values() for section in offer.sections),
        bindings=tuple(bindings.values()),
        providers=MappingProxyType(providers),
        policies=PolicyKinds(
            {kind: made for offer in offered.values() for kind, made in offer.policies.items()}
        ),
        tools={tool.name: tool for offer in offered.values() for tool in offer.tools},
        wire=serving_wire_names(tool for offer in settled for tool in offer.tools),
        owners={tool.name: name for name, offer in offered.items() for tool in offer.tools},
        withheld={name: how for each in settled for name, how in each.withheld.items()},
    )


def _only(calls: Calls, *, wrappers: bool) -> Calls:
    return {
        hook: tuple(call for call in found if call.wrapper is wrappers)
        for hook, found in calls.items()
    }


@dataclass(frozen=True, slots=True, repr=False)
class PluginCatalog:
    """The catalog as hooks and hosts see it; always up to date.

    Args:
        current: Gives the snapshot that holds now.
        renew: Asks a plugin for its sections again.
    """

    current: Callable[[], RegistrySnapshot]
    renew: Callable[[str], None]

    def get(self, name: str) -> Tool[Any, Any] | None:
        """Return the tool of that name or wire name, or None."""
        known = self.current()
        return known.tools.get(name) or known.wire.get(name)

    def names(self) -> tuple[str, ...]:
        """Return all names, in order."""
        return tuple(self.current().tools)

    def plugin_of(self, name: str) -> str | None:
        """Return the plugin that has the tool, by its name or wire name, or None."""
        tool = self.get(name)
        return None if tool is None else self.current().owners.get(tool.name)

    def invalidate(self, plugin: str) -> None:
        """Ask a plugin for its sections again; its tools may have changed.

        Raises:
            PluginError: When there is no such plugin, or what it offers now cannot be taken;
                then it keeps the tools it had.
        """
        self.renew(plugin)

    def __len__(self) -> int:
        return len(self.current().tools)

    def __iter__(self) -> Iterator[Tool[Any, Any]]:
        """Yield the tools in order."""
        return iter(tuple(self.current().tools.values()))
