"""Gives a plugin's tools other names, when the configuration puts a prefix before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from toolstile.plugins.offered_tools import changed_section, dependency
from toolstile.plugins.plugin_errors import PluginFault
from toolstile_hookspecs import Section, Tool
from toolstile_hookspecs.support.patterns import TOOL_NAME
from toolstile_hookspecs.tools import NO_NAMES

T = TypeVar("T", bound=Tool[Any, Any])


def renamed(tool: T, name: str, renamed_tools: Mapping[str, str] = NO_NAMES) -> T:
    """Return a tool that differs in names only: its own, and those of the tools renamed with it.

    It is copied as it is rather than made anew: a decorated function's annotations may
    speak of names that only its own scope knew.
    """
    if TOOL_NAME.fullmatch(name) is None:
        raise PluginFault(
            f"The prefix does not fit. Tool {tool.name!r} cannot be called {name!r}: a name has 1 "
            "to 64 of a-z, 0-9, _ and -.",
            "Take a shorter prefix, or one of these characters.",
            misconfigured=True,
        )
    twin = object.__new__(type(tool))
    names = [(text, dependency(text).name) for text in tool.depends_on]
    depends_on = tuple(renamed_tools.get(name, name) + text[len(name) :] for text, name in names)
    vars(twin).update(vars(tool), name=name, depends_on=depends_on, renamed_tools=renamed_tools)
    return twin


def with_prefix(sections: Iterable[Section], prefix: str) -> tuple[Section, ...]:
    """Return the sections with the prefix before their keys and their tools' names.

    Each has `originals`, all tools of its plugin as they were, by their new names.
    """
    sections = tuple(sections)
    renamed_tools = {name: prefix + name for section in sections for name in _names(section)}
    twins: dict[Tool[Any, Any], Tool[Any, Any]] = {}
    originals: dict[str, Tool[Any, Any]] = {}

    def rename(tool: Tool[Any, Any]) -> Tool[Any, Any]:
        # A tool that stands in two sections stays one tool.
        if tool not in twins:
            twins[tool] = renamed(tool, prefix + tool.name, renamed_tools)
            originals[twins[tool].name] = tool
        return twins[tool]

    def parts_of(section: Section, path: str) -> dict[str, Any]:
        is_outermost = path == section.key
        return {"originals": originals, "key": prefix + path if is_outermost else section.key}

    return tuple(changed_section(section, rename, parts_of) for section in sections)


def _names(section: Section) -> Iterator[str]:
    for tool in section.tools:
        yield tool.name
    for child in section.children:
        yield from _names(child)


def serving_wire_names(tools: Iterable[Tool[Any, Any]]) -> dict[str, Tool[Any, Any]]:
    """Return the tools by the wire names that mean them.

    Of several tools with one wire name the first has it. Those of elsewhere, with an `origin`,
    have none that another tool has as well: nobody could take a call from the one that is meant.
    """
    there = list(tools)
    claims = Counter(name for tool in there for name in {tool.name, tool.wire_name} if name)
    serving: dict[str, Tool[Any, Any]] = {}
    for tool in there:
        wire = tool.wire_name
        if wire is not None and (tool.origin is None or claims[wire] == 1):
            serving.setdefault(wire, tool)
    return serving
