"""Pure functions on JSON Schemas as dicts; none changes its argument.

The keywords are from JSON Schema 2020-12, with `definitions` and the list form of `items` from
older drafts. References to other documents are never fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from toolstile_hookspecs.codecs import pointed

Schema = dict[str, Any]

_ONE: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_MANY: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
DEFINITIONS: Final = ("$defs", "definitions")
_JSON_TYPES: Final = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
)
MAX_NODES: Final = 5_000
"""Schemas that inlining may produce before it gives generic objects for the rest."""


def json_type(value: object) -> str:
    """Return the type that a JSON value has in JSON Schema; whole floats are numbers here."""
    if value is None:
        return "null"
    # A bool is an int in Python, so it comes first.
    for type_, name in _JSON_TYPES:
        if isinstance(value, type_):
            return name
    return "object"


def each_subschema(schema: Schema) -> list[Schema]:
    """Return the schemas directly within a schema."""
    found: list[Schema] = []
    map_subschemas(schema, found.append)
    return found


def map_subschemas(schema: Schema, change: Callable[[Schema], Any]) -> Schema:
    """Return the schema with every schema directly within it changed."""

    def changed(value: object) -> Any:
        return change(cast("Schema", value)) if isinstance(value, dict) else value

    result: Schema = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            named = cast("dict[str, object]", value)
            result[key] = {name: changed(part) for name, part in named.items()}
        elif key in _MANY and isinstance(value, list):
            result[key] = [changed(part) for part in cast("list[object]", value)]
        elif key in _ONE:
            result[key] = changed(value)
        else:
            result[key] = value
    return result


def walk(schema: Schema) -> Iterator[Schema]:
    """Yield the schema and every schema within it."""
    yield schema
    for part in each_subschema(schema):
        yield from walk(part)


def opened(schema: Schema) -> Schema:
    """Return the schema with `additionalProperties: false` gone, at every depth."""
    kept = {
        key: value
        for key, value in schema.items()
        if key != "additionalProperties" or value is not False
    }
    return map_subschemas(kept, opened)


def resolve(root: Schema, reference: object) -> Schema | None:
    """Return the schema that a local reference (`#`, `#/...`) means, or None."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found = pointed(root, reference)
    return cast("Schema", found) if isinstance(found, dict) else None


def inline(schema: Schema) -> Schema:
    """Return the schema with every reference replaced by its target, and without definitions.

    An object of any kind stands for a schema within itself and for a missing one. It
    stands for the rest, too, when the result grows too large.
    """
    nodes = 0

    def inlined(part: Schema, within: tuple[str, ...] = ()) -> Schema:
        nonlocal nodes
        nodes += 1
        rest = {key: value for key, value in part.items() if key not in DEFINITIONS}
        reference = rest.pop("$ref", None)
        rest = map_subschemas(rest, lambda inner: inlined(inner, within))
        if reference is None:
            return rest
        name = str(reference).rsplit("/", 1)[-1].lstrip("#") or "object"
        target = resolve(schema, reference)
        if target is None or reference in within or nodes > MAX_NODES:
            return {"type": "object", "description": f"Another {name}, of the same shape.", **rest}
        return {**inlined(target, (*within, cast("str", reference))), **rest}

    return inlined(schema)


def object_rooted(schema: Schema) -> Schema:
    """Return the schema with a root that says `type: object` and is not a reference or union.

    Providers ask for such a root, as arguments are always an object. A union of objects
    becomes one object with the properties of all; the properties that all require are
    required. A value that fits the schema fits the result.
    """
    root = dereferenced(schema)
    if root.get("type") == "object" and not _UNIONS & root.keys():
        return root
    variants = [] if "properties" in root else _variants(schema, root)
    if variants:
        described = with_keys(root, ("title", "description"))
        return {**described, **_merged(variants), **with_keys(root, DEFINITIONS)}
    return {**without_keys(root, _UNIONS), "type": "object"}


_UNIONS: Final = frozenset({"allOf", "anyOf", "oneOf"})


def without_keys(schema: Schema, keywords: frozenset[str]) -> Schema:
    """Return the schema without the keywords at its root."""
    return {key: value for key, value in schema.items() if key not in keywords}


def with_keys(schema: Schema, keywords: Iterable[str]) -> Schema:
    """Return the schema with nothing but the keywords at its root."""
    return {key: schema[key] for key in keywords if key in schema}


def dereferenced(schema: Schema) -> Schema:
    """Return the schema with its root's own reference replaced by its target."""
    root, seen = schema, set[str]()
    while (reference := root.get("$ref")) is not None and reference not in seen:
        seen.add(reference)
        target = resolve(schema, reference)
        if target is None:
            return without_keys(root, frozenset({"$ref"}))
        root = {**target, **without_keys(root, frozenset({"$ref"}))}
    return root


def _variants(document: Schema, root: Schema) -> list[Schema]:
    for key in ("anyOf", "oneOf"):
        found = root.get(key)
        if isinstance(found, list) and all(
            isinstance(variant, dict) for variant in cast("list[object]", found)
        ):
            meant = [
                resolve(document, variant.get("$ref")) or variant
                for variant in cast("list[Schema]", found)
            ]
            objects = [variant for variant in meant if variant.get("type") == "object"]
            # A part without a type may be an object too, so nothing holds for all parts.
            return objects if all("type" in variant for variant in meant) else []
    return []


def _merged(variants: list[Schema]) -> Schema:
    ways: dict[str, list[Any]] = {}
    for variant in variants:
        for name, property_ in variant.get("properties", {}).items():
            known = ways.setdefault(name, [])
            if property_ not in known:
                known.append(property_)
    properties = {
        name: forms[0] if len(forms) == 1 else {"anyOf": forms} for name, forms in ways.items()
    }
    required = [
        name
        for name in properties
        if all(name in variant.get("required", ()) for variant in variants)
    ]
    merged: Schema = {"type": "object", "properties": properties, "required": required}
    if all(variant.get("additionalProperties") is False for variant in variants):
        merged["additionalProperties"] = False
    return merged
