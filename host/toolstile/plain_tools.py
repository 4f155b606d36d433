"""Tools without a section of their own: those of `Host(tools=...)` and `executor(tools=...)`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolstile_hookspecs import MarkdownSection, Section, Tool, hookimpl, tool
from toolstile_hookspecs.execution.options import PlainTool


def section_of(tools: Iterable[PlainTool], *, key: str) -> MarkdownSection:
    """Return a section that holds the tools and says nothing.

    Raises:
        DefinitionError: When a function cannot be a tool; names its faults.
    """
    made: list[Any] = [each if isinstance(each, Tool) else tool(each) for each in tools]
    return MarkdownSection(key=key, title="Tools", tools=made)


class PlainTools:
    """The plugin that offers the tools of `Host(tools=...)`."""

    def __init__(self, tools: Iterable[PlainTool]) -> None:
        self._section = section_of(tools, key="host_tools")

    @hookimpl
    def toolstile_sections(self) -> list[Section]:
        """Offer the section."""
        return [self._section]
