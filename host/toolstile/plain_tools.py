"""Tools without a section of their own: those of `Host(tools=...)` and `executor(tools=...)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from toolstile_hookspecs import DefinitionError, MarkdownSection, Section, Tool, hookimpl, tool

PlainTool = Tool[Any, Any] | Callable[..., Any]
"""A tool, or a plain function that becomes one."""


def section_of(tools: Iterable[PlainTool], *, key: str, place: str) -> MarkdownSection:
    """Return a section that holds the tools and says nothing.

    Args:
        tools: Tools, and functions with types and a docstring.
        key: The key of the section.
        place: The place that they were given in, for messages.

    Raises:
        DefinitionError: When one of them cannot be a tool; names its faults.
    """
    if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"{place}: tools is {tools!r}; give several tools or functions, such as [add]."
        raise DefinitionError(msg)
    made = [_as_tool(each) for each in tools]
    return MarkdownSection(key=key, title="Tools", tools=made)


def _as_tool(given: PlainTool) -> Tool[Any, Any]:
    if isinstance(given, Tool):
        return given  # pyright: ignore[reportUnknownVariableType] - any tool
    return tool(given)


class PlainTools:
    """The plugin that offers the tools of `Host(tools=...)`.

    Args:
        tools: The tools; see `section_of`.
    """

    def __init__(self, tools: Iterable[PlainTool]) -> None:
        self._section = section_of(tools, key="host_tools", place="Host")

    @hookimpl
    def toolstile_sections(self) -> list[Section]:
        """Offer the section."""
        return [self._section]
