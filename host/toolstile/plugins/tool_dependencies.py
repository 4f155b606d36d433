"""The tools that a tool depends on: each by its name, or with versions, as in `rate>=1.2,<2`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import Tool
from toolstile_hookspecs.support.text import suggest

_COMPARED: Final = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}
_DEPENDENCY: Final = re.compile(r"([^\s<>=!~^,]+)\s*(.*)")
_BOUND: Final = re.compile(
    r"\s*(>=|<=|==|!=|>|<)\s*([0-9]+(?:\.[0-9]+){0,2}(?:-[0-9A-Za-z.-]+)?)\s*"
)

Precedence = tuple[Any, ...]


class Dependency(NamedTuple):
    """A tool that another one calls.

    Args:
        name: Its name.
        bounds: What its version must be to others; None where they cannot be read.
    """

    name: str
    bounds: tuple[tuple[Callable[[Any, Any], bool], Precedence], ...] | None

    def is_met(self, there: Mapping[str, Tool[Any, Any]]) -> bool:
        """Tell whether a tool of the name is there, in a version that fits."""
        tool = there.get(self.name)
        if tool is None or self.bounds is None:
            return False
        version = precedence(tool.version) if tool.version else None
        return not self.bounds or (
            version is not None and all(fits(version, bound) for fits, bound in self.bounds)
        )


@lru_cache(maxsize=1024)
def dependency(text: str) -> Dependency:
    """Return what an entry of `depends_on` says."""
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
