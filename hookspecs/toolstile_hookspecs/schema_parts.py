"""Which parts of a JSON Schema say something of a value, and of what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, cast

from toolstile_hookspecs.faults import Schema, pointed

_COMPOSED: Final = ("anyOf", "oneOf", "allOf")


def alternatives(schemas: Iterable[Schema], root: Schema) -> Iterator[Schema]:
    """Yield the schemas and all they are made of: references, and choices of which one holds."""
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
    """Return what schemas of objects may say of a property."""
    return [part for schema in schemas for part in _named(schema, name)]


def of_item(schemas: Iterable[Schema], index: int) -> list[Schema]:
    """Return what schemas of arrays say of an item."""
    return [part for schema in schemas for part in _placed(schema, index)]


def schemas_among(found: Iterable[object]) -> list[Schema]:
    """Return those that are schemas: a schema may also be true or false."""
    return [cast("Schema", each) for each in found if isinstance(each, Mapping)]


def _named(schema: Schema, name: str) -> list[Schema]:
    properties = schema.get("properties", {})
    # Which of the patterns a name matches only a validator can tell.
    patterns = schema.get("patternProperties", {}).values()
    named = properties[name] if name in properties else schema.get("additionalProperties")
    return schemas_among([named, *patterns])


def _placed(schema: Schema, index: int) -> list[Schema]:
    first = schema.get("prefixItems", ())
    return schemas_among([first[index] if index < len(first) else schema.get("items")])
