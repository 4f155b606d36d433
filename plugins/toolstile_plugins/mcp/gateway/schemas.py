"""JSON Schemas of servers, fit to be shown, and to be checked in bounded time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

from toolstile_hookspecs import DefinitionError
from toolstile_hookspecs.codecs import is_bounded, pointed
from toolstile_plugins.mcp.gateway.errors import NESTED_DEEPER, cleaned, is_plain, one_line

Schema = Mapping[str, Any]

MOST: Final = 20_000
"""Parts of a schema, each as often as it is referred to."""
LONGEST: Final = 200_000
"""Characters of a schema, which every model that is shown the tool has to read."""
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
"""Keywords beneath which are names, and not keywords."""
_TEXTS: Final = frozenset({"title", "description", "$comment"})
_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords beneath which are values, and not schemas."""
_REFERRING: Final = ("$ref", "$dynamicRef")
_BY_PATTERN: Final = frozenset({"patternProperties", "additionalProperties"})
TOO_DEEP: Final = "its schema is nested too deeply"


def enforceable(schema: Schema) -> dict[str, Any]:
    """Return the part of a schema that is shown, and enforced before a call leaves.

    Its texts are cleaned as descriptions are. Left to the server are patterns that cannot be
    searched for in bounded time, and properties that such patterns distinguish.

    Raises:
        DefinitionError: When the schema is too long, or too large once all it refers to is in its
            place; when it is not JSON, or has names of which something cannot be seen.
    """
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise DefinitionError("its schema holds a number that JSON does not have") from None
    except RecursionError:
        raise DefinitionError(TOO_DEEP) from None
    if len(text) > LONGEST:
        raise DefinitionError(f"its schema has more than {LONGEST:,} characters")
    # Without a pattern that is left out, nobody can tell which properties are evaluated.
    dropped = {"unevaluatedProperties"} if '"patternProperties"' in text else set[str]()
    try:
        if _weight(schema) > MOST:
            raise DefinitionError(f"its schema has more than {MOST:,} parts")
        return _kept(schema, dropped)
    except RecursionError:
        raise DefinitionError(TOO_DEEP) from None


def _kept(schema: Schema, dropped: set[str]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    if not all(map(is_bounded, schema.get("patternProperties", ()))):
        dropped = dropped.union(_BY_PATTERN)
    for key, value in schema.items():
        if key in dropped:
            continue
        if key == "pattern" and isinstance(value, str) and not is_bounded(value):
            continue
        if key in _REFERRING and isinstance(value, str):
            _check_reference(value)
        if key in _NAMED and isinstance(value, Mapping):
            named = cast("Mapping[str, object]", value)
            if not all(map(is_plain, named)):
                raise DefinitionError("a name in its schema holds characters that cannot be seen")
            kept[key] = {name: _kept_in(part, dropped) for name, part in named.items()}
        elif key in _TEXTS and isinstance(value, str):
            kept[key] = cleaned(value)
        elif key in _VALUES:
            kept[key] = value
        else:
            kept[key] = _kept_in(value, dropped)
    return kept


def _kept_in(value: object, dropped: set[str]) -> Any:
    if isinstance(value, Mapping):
        return _kept(cast("Schema", value), dropped)
    if isinstance(value, list):
        return [_kept_in(item, dropped) for item in cast("list[object]", value)]
    return value


def _check_reference(target: str) -> None:
    if target == NESTED_DEEPER:
        raise DefinitionError(TOO_DEEP)
    if not _leads_to_schema(target):
        raise DefinitionError(f"its schema refers to {one_line(target, 80)}, which is not a schema")


def _leads_to_schema(target: str) -> bool:
    """Tell whether a reference leads to a schema, and not to values or names, which are kept."""
    is_name = False
    for part in unquote(target).split("/"):
        if part in _VALUES and not is_name:
            return False
        is_name = part in _NAMED and not is_name
    return not is_name


def _weight(root: Schema) -> int:
    """Return the number of a schema's parts, each as often as it is referred to."""
    known: dict[str, int] = {}

    def weigh(value: object) -> int:
        if isinstance(value, Mapping):
            table = cast("Schema", value)
            target = table.get("$ref")
            referred = weigh_target(target) if isinstance(target, str) else 0
            return 1 + sum(map(weigh, table.values())) + referred
        if isinstance(value, Sequence) and not isinstance(value, str):
            return sum(map(weigh, cast("Sequence[object]", value)))
        return 0

    def weigh_target(target: str) -> int:
        if target not in known:
            # A recursive schema ends with the arguments.
            known[target] = 0
            known[target] = weigh(pointed(root, target))
        return known[target]

    return weigh(root)
