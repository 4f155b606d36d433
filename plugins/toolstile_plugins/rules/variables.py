"""The variables of expressions beside the arguments: their schemas, and their values for a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

from toolstile_hookspecs import Tool, ToolContext
from toolstile_hookspecs.tools import Category, Consequence

if TYPE_CHECKING:
    from toolstile_plugins.rules.shapes import Schema

ARGUMENTS: Final = "args"
"""The name of the arguments in an expression."""
SESSION: Final = "session"
_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}


class EvaluationFailed(Exception):
    """An expression came to nothing; the text says why."""


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


SCHEMAS: Final[Mapping[str, Schema]] = {
    "tool": _object(
        name=_TEXT,
        category={"enum": list(get_args(Category))},
        consequence={"enum": list(get_args(Consequence))},
        server=_TEXT,
        tags=_TEXTS,
    ),
    "principal": _object(source=_TEXT, id=_TEXT, groups=_TEXTS),
    "request": _TEXTS,
    SESSION: {"type": "session"},
    "now": {"type": "timestamp"},
}


def _tool(tool: Tool[Any, Any], _: ToolContext) -> Mapping[str, Any]:
    return {
        "name": tool.name,
        "category": tool.category,
        "consequence": tool.consequence,
        "server": tool.origin or "",
        "tags": [*tool.tags],
    }


def _principal(_: Tool[Any, Any], context: ToolContext) -> Mapping[str, Any]:
    who = context.principal
    if who is None:
        raise EvaluationFailed("it is not known for whom the call runs")
    return {"source": who.source, "id": who.id, "groups": sorted(who.groups)}


def _request(_: Tool[Any, Any], context: ToolContext) -> list[str]:
    if not context.request:
        raise EvaluationFailed("what the user asked for is not known")
    return [turn.text for turn in context.request]


MAKERS: Final[Mapping[str, Callable[[Tool[Any, Any], ToolContext], Any]]] = {
    "tool": _tool,
    "principal": _principal,
    "request": _request,
    "now": lambda _, context: context.clock.now(),
}
"""Functions that return the value of a variable for a call; `EvaluationFailed` without one."""
