"""The selector of tools: which tools a policy, a plugin or a command means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.validation_errors import first_fault
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.support.text import near
from toolstile_hookspecs.tools import Category, Consequence, Tool

SUGGESTED: Final = 2
ALL: Final = "*"
CONSEQUENCES: Final[Mapping[Category, Consequence]] = {
    "read": "low",
    "write": "medium",
    "delete": "high",
    "side_effect": "medium",
}
"""The consequence of a category, where nothing else is known of a tool."""


class _Fields(TypedDict):
    tools: frozenset[str] | None
    tags: frozenset[str] | None
    servers: frozenset[str] | None
    category: frozenset[Category] | None
    consequence: frozenset[Consequence] | None


@dataclass(frozen=True, kw_only=True)
class ToolSelector:
    """A selection of tools, which match one value of every given field.

    Without any field it selects all tools. A table of the configuration can hold one; a policy or
    a model of settings that inherits from it has the fields as keys.

    Args:
        tools: Names and globs; wire names count unless a server has chosen them.
        tags: Tags of the tools.
        servers: The servers, or other origins, that they come from.
        category: Their categories.
        consequence: Their consequences.

    Raises:
        DefinitionError: When a field has another type, or names none.

    Example:
        >>> from toolstile_hookspecs import tool
        >>> @tool(category="delete", tags=("files",))
        ... def drop_file(path: str) -> None:
        ...     '''Drop a file.'''
        >>> ToolSelector(tools={"drop_*"}, category={"delete"}).selects(drop_file)
        True
        >>> ToolSelector(tools={"drop_*"}, tags={"mail"}).selects(drop_file)
        False
    """

    tools: AbstractSet[str] | None = None
    tags: AbstractSet[str] | None = None
    servers: AbstractSet[str] | None = None
    category: AbstractSet[Category] | None = None
    consequence: AbstractSet[Consequence] | None = None

    def __post_init__(self) -> None:
        owner = type(self).__name__
        given = {name: getattr(self, name) for name in _Fields.__annotations__}
        try:
            settled = _adapter().validate_python(given)
        except ValidationError as error:
            raise DefinitionError(f"{owner}: {first_fault(error)}.") from None
        for name, values in settled.items():
            object.__setattr__(self, name, values)
            if values is not None and not values:
                told = "it names none, so nothing would be selected; name some, or leave it out"
                raise DefinitionError(f"{owner}: {name}: {told}.")

    def selects(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether a tool is one of them; found once per tool."""
        found = self._known.get(tool)
        if found is None:
            found = self._known[tool] = (
                (self.tools is None or any(fits(tool, name) for name in self.tools))
                and (self.tags is None or not self.tags.isdisjoint(tool.tags))
                and (self.servers is None or tool.origin in self.servers)
                and (self.category is None or tool.category in self.category)
                and (self.consequence is None or tool.consequence in self.consequence)
            )
        return found

    def missing(self, tools: Iterable[Tool[Any, Any]]) -> list[str]:
        """Return the names and globs that none of the tools has, in order."""
        there = list(tools)
        # `*` means all tools, even if there are none.
        wanted = sorted((self.tools or frozenset()) - {ALL})
        return [name for name in wanted if not any(fits(tool, name) for tool in there)]

    def faults(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool] = lambda _: False
    ) -> list[str]:
        """Return the names, tags and servers that no tool has, and the names that select none.

        Args:
            tools: All tools there are.
            may_come: Tells for a name or a glob whether later tools may have it.

        Returns:
            Sentences without a subject, such as "refers to unknown tags: 'maill'".
        """
        names = {name for tool in tools for name in tool.policy_names}
        tags = {tag for tool in tools for tag in tool.tags}
        servers = {tool.origin for tool in tools if tool.origin is not None}
        absent = [name for name in self.missing(tools) if not may_come(name)]
        found = [*_unknown("tools", absent, names)]
        if not may_come(ALL):
            found += _unknown("tags", (self.tags or frozenset()) - tags, tags)
            found += _unknown("servers", (self.servers or frozenset()) - servers, servers)
        named = [tool for tool in tools if not {*(self.tools or ())}.isdisjoint(tool.policy_names)]
        if left_out := sorted({tool.name for tool in named if not self.selects(tool)}):
            told = "which its other fields leave out: a tool has to fit them all"
            found.append(f"names {', '.join(map(repr, left_out))}, {told}")
        return found

    @cached_property
    def _known(self) -> WeakKeyDictionary[Tool[Any, Any], bool]:
        return WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_known"}


def fits(tool: Tool[Any, Any], name: str) -> bool:
    """Tell whether a name, which may be a glob, means a tool."""
    return any(fnmatchcase(own, name) for own in tool.policy_names)


@cache
def _adapter() -> TypeAdapter[_Fields]:
    return TypeAdapter(_Fields)


def _unknown(what: str, absent: Iterable[str], known: Iterable[str]) -> list[str]:
    shown: list[str] = []
    for name in sorted(absent):
        meant = " or ".join(map(repr, near(name, sorted(known), SUGGESTED)))
        shown.append(f"{name!r} (did you mean {meant}?)" if meant else repr(name))
    return [f"refers to unknown {what}: {', '.join(shown)}"] if shown else []
