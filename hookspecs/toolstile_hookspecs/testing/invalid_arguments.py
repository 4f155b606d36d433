"""Arguments that do not fit a tool, made from its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from toolstile_hookspecs.codecs import bounded_validator
from toolstile_hookspecs.tools import Tool

UNKNOWN: Final = "no_such_argument"

_CANDIDATES: Final[tuple[Any, ...]] = ({UNKNOWN: [0]}, [{UNKNOWN: 0}], 0.5, "\N{SNOWMAN}", None)


def wrong_arguments(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return a value of a wrong type for every argument that does not take just anything."""
    schema = tool.params_codec.schema()
    wrong: dict[str, Any] = {}
    for name, of_name in schema.get("properties", {}).items():
        refused = [each for each in _CANDIDATES if not _takes(of_name, schema, each)]
        if refused:
            wrong[name] = refused[0]
    return wrong


def required_arguments(tool: Tool[Any, Any]) -> list[str]:
    """Return the names of the arguments that must be given."""
    return list(tool.params_codec.schema().get("required", ()))


def takes_no_others(tool: Tool[Any, Any]) -> bool:
    """Tell whether unknown arguments are refused, as all but some foreign schemas have it."""
    return tool.params_codec.schema().get("additionalProperties") is False


def _takes(part: Any, schema: Mapping[str, Any], value: object) -> bool:
    whole = {"allOf": [part], "$defs": schema.get("$defs", {})}
    return bool(bounded_validator(whole).is_valid(value))
