"""Tools that depend on the prompt around them, such as those for its sections."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.decorator import tool
from toolstile_hookspecs.errors import StateError, VisibilityExpansionRequired
from toolstile_hookspecs.execution.prompt_parts import section_text
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.tools import Tool

if TYPE_CHECKING:
    from toolstile_hookspecs.prompts import Prompt


class SupportsPrompt(Protocol):
    """An optional part of a `Tool` that depends on the tools of its prompt, as for running code.

    The host calls it each time it offers a prompt, fitted before or not.
    """

    def within(self, tools: Sequence[Tool[Any, Any]]) -> Tool[Any, Any]:
        """Return the tool for a prompt that offers these tools, itself included."""
        ...


@cache
def section_tools() -> tuple[Tool[Any, Any], ...]:
    """Return `read_section` and `open_sections`, the same ones each time."""

    @tool(category="read", consequence="low")
    def read_section(
        section_key: Annotated[str, "The key of the section, as its summary gives it."],
        *,
        context: ToolContext,
    ) -> ToolResult[str]:
        """Read all of a section that is shown as a summary, without opening it."""
        prompt = _prompt(context)
        known = {place.path: place for place in prompt.places(context.session)}
        place = known.get(section_key)
        if place is None:
            return ToolResult.error(_unknown([section_key], list(known)))
        given = prompt.params, context.session, context.resources
        return ToolResult.ok(section_text(place.section, place.path, *given, whole=True))

    @tool(category="read", consequence="low")
    def open_sections(
        section_keys: Annotated[tuple[str, ...], "The keys, as the summaries give them."],
        reason: Annotated[str, "Why they are needed."] = "",
        *,
        context: ToolContext,
    ) -> ToolResult[None]:
        """Open sections that are shown as summaries, to read them and call their tools."""
        closed = [
            place.path for place in _prompt(context).places(context.session) if not place.open
        ]
        unknown = [key for key in section_keys if key not in closed]
        if unknown or not section_keys:
            return ToolResult.error(_unknown(unknown, closed))
        raise VisibilityExpansionRequired(section_keys, reason)

    return (read_section, open_sections)


def _prompt(context: ToolContext) -> Prompt:
    if context.prompt is None:
        raise StateError("This call belongs to no prompt, so there are no sections.")
    return context.prompt


def _unknown(keys: list[str], known: list[str]) -> str:
    there = ", ".join(known) or "none"
    if not keys:
        return f"Give at least one section key. There are: {there}. Then retry."
    return f"No section to open has the key {', '.join(keys)}. There are: {there}. Then retry."
