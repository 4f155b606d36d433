"""Gives a plugin's tools other names, when the configuration puts a prefix before them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolyard_hookspecs import Binding, DefinitionError, Section, SessionProtocol, Tool, ToolPolicy
from toolyard_hookspecs.tools import NAME

T = TypeVar("T", bound=Tool[Any, Any])


def renamed(tool: T, name: str) -> T:
    """Return a tool that differs in its name only.

    It is copied as it is rather than made anew: a decorated function's annotations may
    speak of names that only its own scope knew.

    Raises:
        DefinitionError: When the name is not one for a tool.
    """
    if NAME.fullmatch(name) is None:
        msg = (
            f"Tool {tool.name!r}: it cannot be called {name!r}, a name has 1 to 64 of a-z, 0-9, "
            "_ and -; take a shorter prefix, or one of these characters."
        )
        raise DefinitionError(msg)
    twin = object.__new__(type(tool))
    vars(twin).update(vars(tool), name=name)
    return twin


def with_prefix(sections: Iterable[Section], prefix: str) -> tuple[Section, ...]:
    """Return the sections with the prefix before their keys and their tools' names."""
    names: dict[Tool[Any, Any], Tool[Any, Any]] = {}

    def rename(tool: Tool[Any, Any]) -> Tool[Any, Any]:
        # A tool that stands in two sections stays one tool.
        if tool not in names:
            names[tool] = renamed(tool, prefix + tool.name)
        return names[tool]

    return tuple(_wrapped(section, rename, prefix + section.key) for section in sections)


def _wrapped(
    section: Section, rename: Callable[[Tool[Any, Any]], Tool[Any, Any]], key: str
) -> RenamedSection:
    return RenamedSection(
        section,
        key=key,
        tools=tuple(rename(tool) for tool in section.tools),
        children=tuple(_wrapped(child, rename, child.key) for child in section.children),
    )


@dataclass(frozen=True)
class RenamedSection:
    """A section whose tools go by other names.

    Args:
        original: The section itself, which does everything else.
        key: What finds it.
        tools: Its tools by their new names.
        children: The sections within it, renamed likewise.
    """

    original: Section
    key: str
    tools: Sequence[Tool[Any, Any]] = field(repr=False)
    children: Sequence[Section] = field(repr=False)

    @property
    def title(self) -> str:
        """Its heading."""
        return self.original.title

    @property
    def policies(self) -> Sequence[ToolPolicy]:
        """The rules over its tools."""
        return self.original.policies

    @property
    def resources(self) -> Sequence[Binding[Any]]:
        """What its tools are given."""
        return self.original.resources

    def is_enabled(self, session: SessionProtocol | None) -> bool:
        """Tell whether it is part of the prompt now."""
        return self.original.is_enabled(session)

    def setup(self, session: SessionProtocol) -> None:
        """Register the slices and reducers its tools need."""
        self.original.setup(session)

    def render_body(self, params: Mapping[str, Any]) -> str:
        """Return its text."""
        return self.original.render_body(params)
