"""Refuses a plugin that offers what another has already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from toolstile.plugins.contributions import Contribution
from toolstile.plugins.plugin_errors import PluginFault
from toolstile.plugins.reports import LoadedPlugin
from toolstile_hookspecs import Section, Tool
from toolstile_hookspecs.sections import two_places


def refuse_clashes(plugin: str, new: Contribution, others: Iterable[LoadedPlugin]) -> None:
    """Check that what a plugin offers is its own.

    Args:
        plugin: The plugin's name.
        new: What it offers.
        others: The plugins there are; the one of that name is passed over.

    Raises:
        PluginFault: Naming what clashes, both plugins and the remedy.
    """
    _refuse_own(plugin, new)
    claims = dict(_claims(new))
    for other in others:
        if other.origin.name == plugin:
            continue
        for name, _ in _claims(other.contribution):
            if name in claims:
                raise _tool_clash(plugin, other.origin.title, claims[name], name)
        _refuse_others(plugin, new, other.origin.title, other.contribution)


def _claims(contribution: Contribution) -> Iterator[tuple[str, Tool[Any, Any]]]:
    for tool in contribution.tools:
        yield tool.name, tool
        # Under a prefix, and where somebody else chose it, a wire name only serves where nobody
        # else has it: otherwise the prefix would not help against a clash of wire names.
        if contribution.prefix or tool.origin is not None:
            continue
        if tool.wire_name is not None and tool.wire_name != tool.name:
            yield tool.wire_name, tool


def _refuse_own(plugin: str, new: Contribution) -> None:
    claims: dict[str, Tool[Any, Any]] = {}
    for name, tool in _claims(new):
        if claims.setdefault(name, tool) is not tool:
            raise PluginFault(
                f"Two tools of plugin {plugin!r} are called {name!r}.",
                "Give one of them another name.",
            )
    places: dict[Tool[Any, Any], str] = {}
    for section in _always(new.sections):
        for tool in section.tools:
            if tool in places:
                raise PluginFault(
                    f"The tool {tool.name!r} stands {two_places(places[tool], section.key)}.",
                    "Leave it in one place.",
                )
            places[tool] = section.key


def _always(sections: Iterable[Section]) -> Iterator[Section]:
    for section in sections:
        # Those that are enabled now and then may take turns with a tool.
        if getattr(section, "enabled", True) is None:
            yield section
            yield from _always(section.children)


def _refuse_others(plugin: str, new: Contribution, other: str, there: Contribution) -> None:
    keys = {section.key for section in there.sections}
    for section in new.sections:
        if section.key in keys:
            raise PluginFault(
                f"Plugin {plugin!r} has a section with the key {section.key!r}, which plugin "
                f"{other} has already.",
                _another("the section another key", plugin),
            )
    for kind in new.policies:
        if kind in there.policies:
            raise PluginFault(
                f"Plugin {plugin!r} offers the policy kind {kind!r}, which plugin {other} offers "
                "already.",
                "Rename it in the plugin, or switch one of the two off with TOOLSTILE_BLOCK.",
            )
    bound = {binding.kind for binding in there.bindings}
    for binding in new.bindings:
        if binding.kind in bound:
            raise PluginFault(
                f"Plugin {plugin!r} binds {binding.kind.__qualname__}, which plugin {other} has "
                "bound already.",
                "Switch one of the two off with TOOLSTILE_BLOCK; what an application binds itself "
                "wins over both.",
            )


def _tool_clash(plugin: str, other: str, tool: Tool[Any, Any], name: str) -> PluginFault:
    called = f"the tool {name!r}"
    if tool.name != name:
        called = f"the tool {tool.name!r} with the wire name {name!r}"
    return PluginFault(
        f"Plugin {plugin!r} has {called}, a name that plugin {other} has already.",
        _another("the tool another name", plugin),
    )


def _another(this: str, plugin: str) -> str:
    return (
        f"If the plugin is yours, give {this} there. "
        f'Or write prefix = "x_" into [plugins.{plugin}] of the configuration, or switch one of '
        "the two off with TOOLSTILE_BLOCK."
    )
