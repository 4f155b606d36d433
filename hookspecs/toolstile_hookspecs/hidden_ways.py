"""Whether all that a JSON Schema from elsewhere says of secrets is found in its plain parts.

Masking looks where properties, items, compositions and pointers lead. What else may apply to a
value only a validator knows, of that value.

Source of the rules: JSON Schema, draft 2020-12, and what drafts before it had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from toolstile_hookspecs.faults import ALL_SECRET, Schema, holds_secret

_CONDITIONAL: Final = {"if", "then", "else", "dependentSchemas", "dependencies"}
_LEFT_OVER: Final = {"unevaluatedProperties", "unevaluatedItems", "additionalItems", "contains"}
_ELSEWHERE: Final = {"$dynamicRef", "$recursiveRef"}
_HIDDEN: Final = _CONDITIONAL | _LEFT_OVER | _ELSEWHERE
_BY_NAME: Final = {"properties", "patternProperties", "$defs", "definitions"}
_VALUES: Final = {"const", "enum", "default", "examples", "required"}

_HOLDERS: Final = ("object", "array")
_WHOLE: Final[Schema] = {"writeOnly": True}


def secrecy_of(schema: Schema) -> Schema:
    """Return what masking is to go by: the schema, an empty one, or one that hides everything.

    Args:
        schema: The schema. Where it says of no secret, there is nothing to mask; where it says
            so in a way that masking does not go, anything may be secret.

    Example:
        >>> secrecy_of({"if": {}, "then": {"properties": {"pin": {"writeOnly": True}}}})
        {'writeOnly': True}
    """
    if not holds_secret(schema):
        return {}
    if not any(_is_hidden(part, within=part is not schema) for part in _parts(schema)):
        return schema
    # The names in an object say what became of the rest of it.
    return ALL_SECRET if schema.get("type") in _HOLDERS else _WHOLE


def _is_hidden(part: Schema, *, within: bool) -> bool:
    target = part.get("$ref", "#")
    # A pointer leads from the nearest identifier on, an anchor anywhere.
    pointed = target == "#" or str(target).startswith("#/")
    renamed = within and "$id" in part
    return not _HIDDEN.isdisjoint(part) or not pointed or renamed or _is_list(part.get("items"))


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _parts(schema: object) -> Iterator[Schema]:
    """Yield a schema and those within it."""
    if isinstance(schema, Mapping):
        part = cast("Mapping[str, Any]", schema)
        yield part
        for name, inside in part.items():
            if name in _BY_NAME and isinstance(inside, Mapping):
                for each in cast("Mapping[str, object]", inside).values():
                    yield from _parts(each)
            elif name not in _VALUES:
                yield from _parts(inside)
    elif isinstance(schema, list):
        for each in cast("list[object]", schema):
            yield from _parts(each)
