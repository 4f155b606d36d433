"""Tools that do nothing, for policies to be asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.tools import Category, Consequence, Tool


@dataclass
class Thing:
    """What the stand-ins take; it can be changed, as a policy must not.

    Args:
        name: A name.
        count: A number.
        path: A path.
        tags: Texts.
    """

    name: str = ""
    count: int = 0
    path: str = "a.txt"
    tags: tuple[str, ...] = ()


def _do_nothing(params: Thing, *, context: ToolContext) -> ToolResult[str]:  # noqa: ARG001 - a handler
    return ToolResult.ok("Done.")


def _stand_in(
    name: str, category: Category = "side_effect", consequence: Consequence = "medium"
) -> Tool[Any, Any]:
    return Tool[Thing, str](
        name=name,
        description="Do nothing.",
        handler=_do_nothing,
        category=category,
        consequence=consequence,
        contained=True,
    )


STAND_INS: Final[tuple[Tool[Any, Any], ...]] = (
    *(_stand_in(f"{each}_thing", category=each) for each in get_args(Category)),
    *(_stand_in(f"{each}_thing", consequence=each) for each in get_args(Consequence)),
)
"""`read_thing`, `write_thing`, `delete_thing`, `side_effect_thing`, and `low_thing`,
`medium_thing`, `high_thing` of these consequences; each takes a `Thing`."""

_STRANGE: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {"name": "", "count": 0, "path": "", "tags": []},
    {"name": "\N{SNOWMAN}\0'\"\\;--", "count": -1, "path": "../../etc/passwd"},
    {"name": "x" * 10_000, "count": 10**18, "tags": ["x"] * 1_000},
)

STRANGE_CALLS: Final = tuple((tool.name, arguments) for tool in STAND_INS for arguments in _STRANGE)
"""Calls that no policy expects, of every stand-in."""
