"""Refuses a plugin that offers what another has already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from toolstile.plugins.contributions import RENAME, Contribution
from toolstile.plugins.plugin_errors import PluginFault
from toolstile.plugins.reports import LoadedPlugin
from toolstile_hookspecs import Section, Tool
from toolstile_hookspecs.sections import two_places


def refuse_clashes(plugin: str, new: Contribution, others: Iterable[LoadedPlugin]) -> None:
    """Refuse a plugin that offers what another has; the one of its own name is passed over.

    Raises:
        PluginFault: Naming what clashes, both plugins and the remedy.
    """
    _refuse_own(plugin, new)
    claims = dict(_claims(plugin, new))
    for other in others:
        if other.origin.name == plugin:
            continue
        for claimed, _ in _claims(other.origin.name, other.contribution):
            if claimed in claims:
                has, remedy = claims[claimed]
                cause = f"Plugin {plugin!r} {has} plugin {other.origin} has already."
                raise PluginFault(cause, remedy)


Claim = tuple[tuple[str, object], tuple[str, str]]
"""Kind and name of what is claimed; the words for it, and what to do where it clashes."""

_BOUND: Final = (
    "Switch one of the two off with TOOLSTILE_BLOCK; what an application binds itself wins over "
    "both."
)


def _claims(plugin: str, contribution: Contribution) -> Iterator[Claim]:
    for name, tool in _names(contribution):
        called = f"the tool {name!r}"
        if tool.name != name:
            called = f"the tool {tool.name!r} with the wire name {name!r}"
        yield ("tool", name), (f"has {called}, a name that", _another("the tool", plugin))
    for section in contribution.sections:
        told = f"has a section with the key {section.key!r}, which"
        yield ("section", section.key), (told, _another("the section", plugin))
    for type_ in contribution.policies:
        yield ("policy", type_), (f"offers the policy kind {type_!r}, which", RENAME)
    for binding in contribution.bindings:
        yield ("binding", binding.kind), (f"binds {binding.kind.__qualname__}, which", _BOUND)


def _another(this: str, plugin: str) -> str:
    what = "key" if this == "the section" else "name"
    return (
        f"If the plugin is yours, give {this} another {what} there. "
        f'Or write prefix = "x_" into [plugins.{plugin}] of the configuration, or switch one of '
        "the two off with TOOLSTILE_BLOCK."
    )


def _names(contribution: Contribution) -> Iterator[tuple[str, Tool[Any, Any]]]:
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
    for name, tool in _names(new):
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
