"""Refuses a plugin that offers what another has already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from toolstile.plugins.contributions import RENAME, Contribution
from toolstile.plugins.offered_tools import circle_among
from toolstile.plugins.plugin_errors import PluginFault
from toolstile.plugins.reports import LoadedPlugin
from toolstile_hookspecs import Section, Tool
from toolstile_hookspecs.execution.prompt_parts import two_places


def refuse_clashes(plugin: str, new: Contribution, others: Iterable[LoadedPlugin]) -> None:
    """Refuse a plugin that offers what another has; the one of its own name is passed over.

    Raises:
        PluginFault: Naming what clashes, both plugins and the remedy.
    """
    _refuse_own(plugin, new)
    claims = dict(_claims(new))
    others = [other for other in others if other.origin.name != plugin]
    tools = [*new.tools, *(tool for other in others for tool in other.contribution.tools)]
    if (circle := circle_among(tools)) is not None:
        cause = f"Tools depend on one another in a circle: {circle}."
        raise PluginFault(cause, "Leave one of them out of the depends_on of the one before it.")
    for other in others:
        for claim, _ in _claims(other.contribution):
            if claim in claims:
                cause = f"Plugin {plugin!r} {claims[claim]} plugin {other.origin} has already."
                remedy = _REMEDIES[claim[0]].format(plugin=plugin)
                raise PluginFault(cause, remedy, kinds=new.policies)


_PREFIX: Final = (
    'Or write prefix = "x_" into [plugins.{plugin}] of the configuration, or switch one of the '
    "two off with TOOLSTILE_BLOCK."
)
_REMEDIES: Final = {
    "tool": f"If the plugin is yours, give the tool another name there. {_PREFIX}",
    "section": f"If the plugin is yours, give the section another key there. {_PREFIX}",
    "policy": RENAME,
    "binding": "Take what asks for it out of [plugins.{plugin}] or the other's table, or switch "
    "one of the two off with TOOLSTILE_BLOCK; what an application binds itself wins over both.",
}


def _claims(contribution: Contribution) -> Iterator[tuple[tuple[str, object], str]]:
    """Yield the sort and name of what only one plugin can have, with words for it."""
    for name, tool in _names(contribution):
        called = "" if tool.name == name else f"{tool.name!r} with the wire name "
        yield ("tool", name), f"has the tool {called}{name!r}, a name that"
    for section in contribution.sections:
        yield ("section", section.key), f"has a section with the key {section.key!r}, which"
    for name in contribution.policies:
        yield ("policy", name), f"offers the policy kind {name!r}, which"
    for binding in contribution.bindings:
        yield ("binding", binding.kind), f"binds {binding.kind.__qualname__}, which"


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
