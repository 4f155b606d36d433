"""The tools that a prompt offers: of the wanted tags, and with all their dependencies."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from operator import eq, ge, gt, is_, le, lt, ne
from typing import Any, Final, NamedTuple, TypeVar, cast

from toolstile.plugins.plugin_errors import PluginFault
from toolstile.settings.model import Settings, ToolCorrection
from toolstile_hookspecs import (
    NOTICE,
    ConfigurationError,
    DefinitionError,
    MarkdownSection,
    Prompt,
    PromptTemplate,
    Section,
    Tool,
    ToolSelector,
    hookimpl,
    tool as as_tool,
)
from toolstile_hookspecs.execution.options import PlainTool
from toolstile_hookspecs.execution.prompt_tools import SupportsPrompt
from toolstile_hookspecs.selectors import CONSEQUENCES, fits
from toolstile_hookspecs.support.patterns import TOOL_NAME
from toolstile_hookspecs.support.text import suggest
from toolstile_hookspecs.tools import NO_NAMES

# --- Dependencies of tools


_COMPARED: Final = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}
_DEPENDENCY: Final = re.compile(r"([^\s<>=!~^,]+)\s*(.*)")
_BOUND: Final = re.compile(
    r"\s*(>=|<=|==|!=|>|<)\s*([0-9]+(?:\.[0-9]+){0,2}(?:-[0-9A-Za-z.-]+)?)\s*"
)

Precedence = tuple[Any, ...]


class Dependency(NamedTuple):
    """A tool that another tool calls, and bounds of its version; None if they cannot be read."""

    name: str
    bounds: tuple[tuple[Callable[[Any, Any], bool], Precedence], ...] | None

    def is_met(self, there: Mapping[str, Tool[Any, Any]]) -> bool:
        tool = there.get(self.name)
        if tool is None or self.bounds is None:
            return False
        version = precedence(tool.version) if tool.version else None
        return not self.bounds or (
            version is not None and all(fits(version, bound) for fits, bound in self.bounds)
        )


@lru_cache(maxsize=1024)
def dependency(text: str) -> Dependency:
    """Parse an entry of `depends_on`."""
    found = _DEPENDENCY.fullmatch(text)
    if found is None:
        return Dependency(text, ())
    bounds = [_BOUND.fullmatch(part) for part in found[2].split(",")] if found[2] else []
    read = tuple((_COMPARED[bound[1]], precedence(bound[2])) for bound in bounds if bound)
    return Dependency(found[1], read if len(read) == len(bounds) else None)


def names_of_dependencies(tool: Tool[Any, Any]) -> list[str]:
    """Return the names of the tools that a tool says it calls."""
    return [dependency(text).name for text in tool.depends_on]


def unknown_dependencies(tools: Sequence[Tool[Any, Any]], absent: Iterable[str]) -> list[str]:
    """Return which tools depend on a name that no tool has, and that none of `absent` may be."""
    there = {name for tool in tools for name in tool.policy_names}
    return [
        f"Tool {tool.name!r} depends on {name}, which is no tool{suggest(name, there) or '.'} "
        "Fix its depends_on, or load the plugin that offers that tool."
        for tool in tools
        for name in names_of_dependencies(tool)
        if name not in there and not any(fnmatchcase(name, each) for each in absent)
    ]


def precedence(version: str) -> Precedence:
    """Return a version as something that sorts as SemVer 2.0 has it, section 11."""
    core, _, label = version.partition("+")[0].partition("-")
    numbers = [int(number) for number in core.split(".")]
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in label.split(".")]
    return (*numbers, *[0] * (3 - len(numbers)), not label, parts if label else [])


# --- Sections and prompts with other parts


ToolChange = Callable[[Tool[Any, Any]], Tool[Any, Any] | None]
"""Returns the tool in the place of another, None for none."""
Parts = Callable[[Section, str], Mapping[str, Any]]
"""Returns the other parts of a section, by its path."""


class ChangedSection:
    """A section with other attributes and methods; all else is the original's."""

    def __init__(self, original: Section, **parts: Any) -> None:
        self.original = original
        vars(self).update(parts)

    def __getattr__(self, name: str) -> Any:
        """Return the original's attribute, if this section has none of that name."""
        if name == "original":  # not there yet, as in a copy that is being made
            raise AttributeError(name)
        return getattr(self.original, name)


def changed_section(
    section: Section, change: ToolChange, parts_of: Parts | None = None, place: str = ""
) -> Section:
    """Return a section with other tools and parts, here and within; itself where none differs."""
    path = f"{place}{section.key}"
    tools = tuple(new for tool in section.tools if (new := change(tool)) is not None)
    within = (changed_section(child, change, parts_of, f"{path}.") for child in section.children)
    children = tuple(within)
    parts: Mapping[str, Any] = {} if parts_of is None else parts_of(section, path)
    after: tuple[object, ...] = (*tools, *children)
    before = (*section.tools, *section.children)
    if not parts and len(after) == len(before) and all(map(is_, after, before)):
        return section
    return cast("Section", ChangedSection(section, tools=tools, children=children, **parts))


def changed_prompt(prompt: Prompt, change: ToolChange, parts_of: Parts | None = None) -> Prompt:
    """Return a prompt with other tools, and other parts of its sections."""
    sections = tuple(changed_section(each, change, parts_of) for each in prompt.sections)
    template = PromptTemplate(prompt.ns, prompt.key, sections, prompt.policies)
    return replace(prompt, template=template, further=())


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OfferedPrompt(Prompt):
    """A prompt without the tools that are left out, and why each of them is, by its names."""

    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


def circle_among(tools: Iterable[Tool[Any, Any]]) -> str | None:
    """Return a circle of tools that depend on each other, `a -> b -> a`, or None."""
    try:
        TopologicalSorter({tool.name: names_of_dependencies(tool) for tool in tools}).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return None


def fitted(prompt: Prompt) -> Prompt:
    """Return a prompt whose tools know which others it offers; see `SupportsPrompt`."""
    tools = [tool for section in prompt.everywhere() for tool in section.tools]
    # Looking at the class of each against the protocol would take longer than all else here.
    able = [cast("SupportsPrompt", tool) for tool in tools if hasattr(tool, "within")]
    twins: dict[object, Tool[Any, Any]] = {tool: tool.within(tools) for tool in able}
    return changed_prompt(prompt, lambda tool: twins.get(tool, tool)) if twins else prompt


class ToolOffers:
    """Leaves tools out of prompts, and warns of each reason once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def configured(
        self,
        prompt: Prompt,
        configuration: Settings,
        absent_tools: Callable[[], Mapping[str, str | None]],
    ) -> Prompt:
        """Return the prompt with the tools that are configured, as they are corrected there.

        `absent_tools` returns None by the names, or globs, of tools that come later. Raises
        `ConfigurationError` for a table that does not fit its tool.
        """
        if tables := configuration.tools:
            tools = [tool for section in prompt.everywhere() for tool in section.tools]
            names = {name for tool in tools for name in tool.policy_names}
            late = [each for each, remedy in absent_tools().items() if remedy is None]
            for name in sorted(tables):
                found = any(fits(tool, name) for tool in tools)
                if not (found or any(fnmatchcase(name, each) for each in late)):
                    self._warn(f"[tools.{name}] corrects no tool{suggest(name, names) or '.'}")
            if twins := {tool: _corrected(tool, tables) for tool in tools}:
                prompt = changed_prompt(prompt, twins.__getitem__)
        return self.of(prompt, configuration.tags, configuration.without_tags)

    def of(self, prompt: Prompt, only: Collection[str], without: Collection[str]) -> Prompt:
        """Return the prompt with the tools that are offered.

        A tool needs one of the tags `only`, unless it is empty, and has none of `without`.
        `DefinitionError`: tools depend on one another in a circle.
        """
        tools = [tool for section in prompt.everywhere() for tool in section.tools]
        if not (only or without or any(tool.depends_on for tool in tools)):
            return prompt
        if (circle := circle_among(tools)) is not None:
            raise DefinitionError(f"These tools depend on one another in a circle: {circle}.")
        named = {*only, *without}
        for fault in ToolSelector(tags=named).faults(tools) if named else ():
            self._warn(f"The choice of tools {fault}.")
        chosen = ToolSelector(tags={*only} or None)
        unwanted = ToolSelector(tags={*without}) if without else None
        left_out = {
            tool: "it is not among the tools that are offered"
            for tool in tools
            if not chosen.selects(tool) or (unwanted is not None and unwanted.selects(tool))
        }
        return self.without(prompt, left_out)

    def without(self, prompt: Prompt, left_out: dict[Tool[Any, Any], str]) -> Prompt:
        """Return the prompt without some tools, by their reasons, and without their dependents."""
        tools = [tool for section in prompt.everywhere() for tool in section.tools]
        self._leave_out_dependents(tools, left_out)
        if not left_out:
            return prompt
        told = {
            name: f"{name} cannot be called here: {why}. Continue without it."
            for tool, why in left_out.items()
            for name in tool.policy_names
        }
        told = {**getattr(prompt, "left_out", {}), **told}
        rest = changed_prompt(prompt, lambda tool: None if tool in left_out else tool)
        return OfferedPrompt(rest.template, rest.params, rest.resources, (), told)

    def _leave_out_dependents(
        self, tools: list[Tool[Any, Any]], left_out: dict[Tool[Any, Any], str]
    ) -> None:
        """Leave out tools with a missing dependency, and the tools that depend on them."""
        found = True
        while found:
            left = [tool for tool in tools if tool not in left_out]
            there = {name: tool for tool in left for name in tool.policy_names}
            found = False
            # A tool that is fitted to its prompt will depend on the tools that are left.
            for tool in (each for each in tools if not hasattr(each, "within")):
                missing = [text for text in tool.depends_on if not dependency(text).is_met(there)]
                if missing and tool not in left_out:
                    found = True
                    verb = "is" if len(missing) == 1 else "are"
                    why = f"it depends on {', '.join(missing)}, which {verb} not offered"
                    left_out[tool] = why
                    other = there.get(dependency(missing[0]).name)
                    hint = suggest(missing[0], there) or "."
                    if other is not None:
                        hint = f"; {other.name} has {other.version or 'no version'}."
                    self._warn(f"Tool {tool.name!r} is left out: {why}{hint}")

    def _warn(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            log.warning("%s", text, extra=NOTICE)


def _corrected(tool: Tool[Any, Any], tables: Mapping[str, ToolCorrection]) -> Tool[Any, Any]:
    # A tool's own table comes last, and wins over globs.
    fitting = sorted((name for name in tables if fits(tool, name)), key=tool.policy_names.count)
    given = {
        key: getattr(tables[name], key) for name in fitting for key in tables[name].model_fields_set
    }
    if not given:
        return tool
    if given.get("category", tool.category) != tool.category:
        given.setdefault("consequence", CONSEQUENCES[given["category"]])
    try:
        return replace(tool, **given)
    except DefinitionError as error:
        raise ConfigurationError(f"[tools.{tool.name}] does not fit: {error}") from None


# --- Prefixes


T = TypeVar("T", bound=Tool[Any, Any])


def renamed(tool: T, name: str, renamed_tools: Mapping[str, str] = NO_NAMES) -> T:
    """Return a tool that differs in names only: its own, and its renamed dependencies.

    The tool is copied, not built again, because a decorated function's annotations may
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

    Of several tools with one wire name the first has it. A foreign tool, with an `origin`,
    keeps no wire name that another tool has, because a call could then reach the wrong tool.
    """
    there = list(tools)
    claims = Counter(name for tool in there for name in {tool.name, tool.wire_name} if name)
    serving: dict[str, Tool[Any, Any]] = {}
    for tool in there:
        wire = tool.wire_name
        if wire is not None and (tool.origin is None or claims[wire] == 1):
            serving.setdefault(wire, tool)
    return serving


def section_of(tools: Iterable[PlainTool], *, key: str) -> MarkdownSection:
    """Return a silent section of the tools; a `DefinitionError` names a function's faults."""
    made: list[Any] = [each if isinstance(each, Tool) else as_tool(each) for each in tools]
    return MarkdownSection(key=key, title="Tools", tools=made)


class PlainTools:
    """The plugin that offers the tools of `Host(tools=...)`."""

    def __init__(self, tools: Iterable[PlainTool]) -> None:
        self._section = section_of(tools, key="host_tools")

    @hookimpl
    def toolstile_sections(self) -> list[Section]:
        return [self._section]
