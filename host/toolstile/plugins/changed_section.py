"""Sections and prompts of which the host replaces some parts: names, tools, texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_
from typing import Any, cast

from toolstile_hookspecs import Prompt, PromptTemplate, Section, Tool

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
        """Return what the original has; asked for what this one does not have itself."""
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
