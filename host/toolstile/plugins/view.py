"""What all plugins come to at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from toolstile.plugins.catalog import ToolIndex, index
from toolstile.plugins.implementations import Implementation
from toolstile.plugins.roster import Roster
from toolstile_hookspecs import Binding, Section

Calls = Mapping[str, tuple[Implementation, ...]]


@dataclass(frozen=True, slots=True)
class View:
    """What readers see; never changed, only replaced as a whole.

    Args:
        generation: A number that grows with every change.
        implementations: By hook, in the order of calling.
        wrappers: By hook, the outermost first.
        sections: Of all plugins, in the order of registration.
        bindings: Of all plugins, likewise.
        providers: The plugin that has bound it, by kind of resource.
        policies: What makes each kind of policy.
        tools: The tools by name.
    """

    generation: int
    implementations: Calls
    wrappers: Calls
    sections: tuple[Section, ...] = ()
    bindings: tuple[Binding[Any], ...] = ()
    providers: Mapping[type[Any], str] = field(default_factory=dict[type[Any], str])
    policies: Mapping[str, type[Any]] = field(default_factory=dict[str, type[Any]])
    tools: ToolIndex = field(default_factory=ToolIndex)


def view_of(roster: Roster, generation: int) -> View:
    """Return what the plugins of a roster come to now."""
    calls = {hook: tuple(roster.implementations(hook)) for hook in roster.hooks}
    offered = [(name, each.contribution) for name, each in roster.records.items()]
    return View(
        generation=generation,
        implementations=_only(calls, wrappers=False),
        wrappers=_only(calls, wrappers=True),
        sections=tuple(section for _, each in offered for section in each.sections),
        bindings=tuple(binding for _, each in offered for binding in each.bindings),
        providers=MappingProxyType(
            {binding.kind: name for name, each in offered for binding in each.bindings}
        ),
        policies=MappingProxyType(
            {kind: made for _, each in offered for kind, made in each.policies.items()}
        ),
        tools=index(offered),
    )


def _only(calls: Calls, *, wrappers: bool) -> Calls:
    return {
        hook: tuple(each for each in found if each.wrapper is wrappers)
        for hook, found in calls.items()
    }
