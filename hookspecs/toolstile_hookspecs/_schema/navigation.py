"""Ways through a JSON Schema: to the parts for a property or an item, and to names and secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

Schema = Mapping[str, Any]

ALL_SECRET: Final[Schema] = {
    "additionalProperties": {"writeOnly": True},
    "items": {"writeOnly": True},
}
"""Stands in for the schema of a type without one, in which anything may be secret."""
_SECRET: Final = re.compile('"writeOnly": true|"format": "password"')
_COMPOSED: Final = ("anyOf", "oneOf", "allOf")
_BY_NAME: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
)
"""Keywords beneath which are schemas by their names."""
VALUES: Final = frozenset(("const", "default", "enum", "examples"))
"""Keywords beneath which are values."""
_INDEX: Final = re.compile("[0-9]{1,9}")


def holds_secret(schema: Schema) -> bool:
    """Tell whether a JSON Schema has a field that is to be written but never shown."""
    return _SECRET.search(json.dumps(schema, default=str)) is not None


def alternatives(schemas: Iterable[Schema], root: Schema) -> Iterator[Schema]:
    """Yield schemas with all that they refer to or combine."""
    waiting, seen = list(schemas), set[str]()
    while waiting:
        schema = waiting.pop()
        yield schema
        target = schema.get("$ref")
        if isinstance(target, str) and target not in seen:
            seen.add(target)
            waiting += schemas_among([pointed(root, target)])
        for key in _COMPOSED:
            waiting += schemas_among(schema.get(key, ()))


def of_property(schemas: Iterable[Schema], name: str) -> list[Schema]:
    """Return the schemas that may apply to a property of objects."""
    found: list[object] = []
    for schema in schemas:
        named = schema.get("properties", {})
        found.append(named[name] if name in named else schema.get("additionalProperties"))
        # Only a validator knows which patterns match the name.
        found += schema.get("patternProperties", {}).values()
    return schemas_among(found)


def of_item(schemas: Iterable[Schema], index: int) -> list[Schema]:
    """Return the schemas that apply to an item of arrays."""
    first = [(schema, schema.get("prefixItems", ())) for schema in schemas]
    return schemas_among(
        items[index] if index < len(items) else schema.get("items") for schema, items in first
    )


def schemas_among(found: Iterable[object]) -> list[Schema]:
    """Return the schemas among some values, without true and false."""
    return [cast("Schema", part) for part in found if isinstance(part, Mapping)]


def known_names(schema: Schema, path: Iterable[object] = ()) -> list[str]:
    """Return all property names of an object, here or at a path within."""
    found = list(alternatives([schema], schema))
    for part in path:
        inside = of_item(found, part) if isinstance(part, int) else of_property(found, str(part))
        found = list(alternatives(inside, schema))
    return [name for part in found for name in part.get("properties", ())]


def pointed(root: Schema, target: str) -> object:
    """Return the part of a schema that a reference within it (`#`, `#/...`) leads to, or None.

    Source of the rules: RFC 6901, where a pointer is the fragment of an address.
    """
    here: Any = root
    for part in unquote(target.removeprefix("#")).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, (dict, Mapping)):
            here = cast("Mapping[str, object]", here).get(name)
        elif isinstance(here, Sequence) and not isinstance(here, str):
            items = cast("Sequence[object]", here)
            here = items[int(name)] if _INDEX.fullmatch(name) and int(name) < len(items) else None
        else:
            return None
    return here


def subschemas(value: object) -> Iterator[Schema]:
    """Yield every schema within a schema, itself first."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (dict, Mapping)):
            schema = cast("Schema", part)
            yield schema
            for key, inner in schema.items():
                if key in _BY_NAME and isinstance(inner, Mapping):
                    waiting += cast("Schema", inner).values()
                elif key not in VALUES:
                    waiting.append(inner)
        elif isinstance(part, list):
            waiting += cast("list[object]", part)
