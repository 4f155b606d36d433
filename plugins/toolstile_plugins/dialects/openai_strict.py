"""The conversion of schemas into the part of JSON Schema that OpenAI's strict mode takes.

Source: OpenAI's guide to structured outputs, "Supported schemas". The root is an object and not a
union. Every object is closed and requires all its properties. `anyOf`, `enum`, `const` and local
`$ref` are known; `allOf`, `not`, `if` and the dependent keywords are not. Depth and size have
limits.

A value that fits the result fits the original. Keywords that merely narrow a value (`minLength`,
`uniqueItems` and the like) are left to parsing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, cast

from toolstile_plugins.dialects.json_schema import (
    Schema,
    each_subschema,
    json_type,
    object_rooted,
    resolve,
    walk,
    with_keys,
    without_keys,
)
from toolstile_plugins.dialects.parse import items

MAX_PROPERTIES: Final = 5_000
MAX_DEPTH: Final = 10
MAX_ENUM_VALUES: Final = 1_000
LONG_ENUM: Final = 250
MAX_LONG_ENUM_TEXT: Final = 15_000
"""Characters of all values of one enum that has more than `LONG_ENUM` of them."""
MAX_TEXT: Final = 120_000
MAX_DEFAULT: Final = 200

FORMATS: Final = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)
NUMERIC: Final = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_PLAIN_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_TYPES: Final = _PLAIN_TYPES | {"object", "array"}
# These change the form of values, so that leaving them out would mislead the model.
_SHAPING: Final = frozenset(
    {
        "additionalItems",
        "dependentSchemas",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)


class _NotStrictError(Exception):
    """The schema says something that strict mode cannot."""


def strict_schema(schema: Schema) -> Schema | None:
    """Return the schema in strict form, or None where strict mode cannot express it.

    An optional property with a default becomes a required one, whose description names the
    default. Without a default it cannot be left out, so the schema is not strict.
    """
    root = object_rooted(schema)
    try:
        strict = _Strict(root).root()
        _check_limits(strict)
    except _NotStrictError:
        return None
    return strict


class _Strict:
    def __init__(self, root: Schema) -> None:
        self._document = root

    def root(self) -> Schema:
        strict = self._object(without_keys(self._document, frozenset({"$defs"})))
        definitions = self._document.get("$defs")
        if definitions:
            strict["$defs"] = {
                name: self._schema(definition)
                for name, definition in cast("Schema", definitions).items()
            }
        return strict

    def _schema(self, given: object) -> Schema:
        if not isinstance(given, dict):
            raise _NotStrictError
        schema = cast("Schema", given)
        if _SHAPING & schema.keys() or ({"$defs", "definitions"} & schema.keys()):
            raise _NotStrictError
        if "$ref" in schema:
            return self._reference(schema)
        if "allOf" in schema:
            parts = cast("list[Schema]", items(schema["allOf"]))
            if len(parts) != 1 or not isinstance(cast("object", parts[0]), dict):
                raise _NotStrictError
            return self._schema({**parts[0], **without_keys(schema, frozenset({"allOf"}))})
        if "anyOf" in schema or "oneOf" in schema:
            return self._union(schema)
        if "enum" in schema or "const" in schema:
            values = [schema["const"]] if "const" in schema else schema["enum"]
            types = sorted({json_type(value) for value in values})
            if not values or not set(types) <= _PLAIN_TYPES:
                raise _NotStrictError
            type_ = types[0] if len(types) == 1 else types
            return {"type": type_, **with_keys(schema, ("description", "enum", "const"))}
        return self._typed(schema)

    def _reference(self, schema: Schema) -> Schema:
        reference = schema["$ref"]
        is_plain = re.fullmatch(r"#(/\$defs/[^/]*)?", str(reference))
        if resolve(self._document, reference) is None or not is_plain:
            raise _NotStrictError
        if "description" not in schema:
            return {"$ref": reference}
        # A reference stands alone in strict mode; a union of one can be described.
        return {"anyOf": [{"$ref": reference}], "description": schema["description"]}

    def _union(self, schema: Schema) -> Schema:
        key = "anyOf" if "anyOf" in schema else "oneOf"
        if {"properties", "items", "enum", "const"} & schema.keys():
            raise _NotStrictError
        variants = [self._schema(variant) for variant in schema[key]]
        # The API refuses two objects that begin with the same key.
        first: list[str] = []
        for variant in variants:
            meant = resolve(self._document, variant.get("$ref")) or variant
            names = list(meant.get("properties", ()))
            if names and not {"const", "enum"} & meant["properties"][names[0]].keys():
                first.append(names[0])
        if not variants or len(first) != len(set(first)):
            raise _NotStrictError
        return {"anyOf": variants, **_described(schema)}

    def _typed(self, schema: Schema) -> Schema:
        given = schema.get("type")
        types = {given} if isinstance(given, str) else set(cast("list[str]", given or []))
        if not types or not types <= _TYPES:
            raise _NotStrictError
        strict: Schema = {"type": schema["type"], **_described(schema)}
        if "object" in types:
            strict.update(without_keys(self._object(schema), frozenset({"type"})))
        if "array" in types:
            strict["items"] = self._schema(schema.get("items"))
            strict.update(with_keys(schema, ("minItems", "maxItems")))
        if types & {"number", "integer"}:
            strict.update(with_keys(schema, NUMERIC))
        if "string" in types:
            if schema.get("format") in FORMATS:
                strict["format"] = schema["format"]
            pattern = schema.get("pattern")
            # Look-around is refused; groups that are not plain are rare enough to leave out, too.
            if isinstance(pattern, str) and "(?" not in pattern:
                strict["pattern"] = pattern
        return strict

    def _object(self, schema: Schema) -> Schema:
        properties = schema.get("properties", {})
        extra = schema.get("additionalProperties")
        if not isinstance(properties, dict) or _SHAPING & schema.keys():
            raise _NotStrictError
        # Named properties and no word of others: others are not meant, so closing loses nothing.
        if extra is not False and not ("properties" in schema and extra is None):
            raise _NotStrictError
        named = cast("dict[str, object]", properties)
        required = schema.get("required", ())
        return {
            "type": "object",
            **_described(schema),
            "properties": {
                name: self._schema(property_ if name in required else self._settled(property_))
                for name, property_ in named.items()
            },
            "required": list(named),
            "additionalProperties": False,
        }

    def _settled(self, given: object) -> Schema:
        """Return an optional property in a form that can be required, naming its default."""
        schema = cast("Schema", given) if isinstance(given, dict) else {}
        if "default" not in schema or not self._admits(schema, schema["default"]):
            raise _NotStrictError
        default = json.dumps(schema["default"], ensure_ascii=False)
        if len(default) > MAX_DEFAULT:
            raise _NotStrictError
        text = f"{schema.get('description', '')} Default: {default}.".lstrip()
        return {**schema, "description": text}

    def _admits(self, schema: Schema, value: object, depth: int = 0) -> bool:
        """Tell whether a default is of the schema's type; authors need not have checked it."""
        if depth > MAX_DEPTH:
            return False
        if "$ref" in schema:
            target = resolve(self._document, schema["$ref"])
            return target is not None and self._admits(target, value, depth + 1)
        if "const" in schema:
            return _same(schema["const"], value)
        if "enum" in schema:
            return any(_same(choice, value) for choice in schema["enum"])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return any(self._admits(variant, value, depth + 1) for variant in schema[key])
        types = schema.get("type", ())
        type_ = json_type(value)
        return type_ in ([types] if isinstance(types, str) else types) or (
            type_ == "integer" and types == "number"
        )


def _described(schema: Schema) -> Schema:
    return with_keys(schema, ("description",))


def _same(one: object, other: object) -> bool:
    return one == other and json_type(one) == json_type(other)


def _check_limits(schema: Schema) -> None:
    properties, values, text = 0, 0, 0
    for part in walk(schema):
        names: dict[str, Any] = part.get("properties", {})
        choices: list[Any] = part.get("enum", [])
        chosen = _length(choices)
        if len(choices) > LONG_ENUM and chosen > MAX_LONG_ENUM_TEXT:
            raise _NotStrictError
        properties += len(names)
        values += len(choices)
        text += sum(map(len, [*names, *part.get("$defs", ())]))
        text += chosen + _length(with_keys(part, ("const",)).values())
    depths = [
        _depth(schema),
        *(_depth(definition) for definition in schema.get("$defs", {}).values()),
    ]
    if (
        properties > MAX_PROPERTIES
        or values > MAX_ENUM_VALUES
        or text > MAX_TEXT
        or max(depths) > MAX_DEPTH
    ):
        raise _NotStrictError


def _length(values: Iterable[object]) -> int:
    return sum(len(value) for value in values if isinstance(value, str))


def _depth(schema: Schema) -> int:
    """Return how deep objects and arrays nest; a reference's target counts separately."""
    inner = without_keys(schema, frozenset({"$defs"}))
    deepest = max((_depth(part) for part in each_subschema(inner)), default=0)
    types = schema.get("type", ())
    nests = not {"object", "array"}.isdisjoint([types] if isinstance(types, str) else types)
    return deepest + nests
