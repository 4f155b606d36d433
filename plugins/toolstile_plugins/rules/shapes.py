"""The shapes of values: the JSON types that a schema lets stand in a place, and the fields within.

Beside the types of JSON there are `timestamp`, `duration` and `bytes`, which expressions have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from toolstile_hookspecs.codecs import alternatives, of_item, pointed, schemas_among
from toolstile_plugins.policies.path_arguments import use_of

Schema = Mapping[str, Any]
Place = tuple[str, ...]

ANYTHING: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
INTEGER: Final = "integer"
DOUBLE: Final = "double"
_OF_PYTHON: Final[Mapping[type[Any], str]] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    bytes: "bytes",
    list: "array",
    dict: "object",
}
_DEEP: Final = 20


def type_of(value: Any) -> str:
    """Return the JSON type of a value, or `bytes`."""
    return _OF_PYTHON.get(value.__class__, "object")


@dataclass(frozen=True, slots=True)
class Shape:
    """The values that may stand in a place.

    Args:
        types: Their types.
        label: The expression, as messages show it.
        place: The names that lead there; none where it is no variable's.
        schemas: The schemas of the place.
        values: All values there may be, as JSON; None for any of the types.
        exact: The kind of number, `integer` or `double`, where it is always the same.
        use: How the tool uses the text, as `path`, `url` or `command`; an array, its items.
    """

    types: frozenset[str]
    label: str = "it"
    place: Place = ()
    schemas: tuple[Schema, ...] = ()
    values: frozenset[str] | None = None
    exact: str | None = None
    use: str = ""

    def without_null(self) -> Shape:
        """Return the shape of the values that are not null."""
        return replace(self, types=self.types - {"null"})

    @property
    def shown(self) -> str:
        """The expression with its types."""
        return f"{self.label} ({' or '.join(sorted(self.types))})"


def literal_shape(value: Any) -> Shape:
    """Return the shape of a literal."""
    is_number = type_of(value) == "number"
    exact = None if not is_number else DOUBLE if isinstance(value, float) else INTEGER
    shown = repr(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    return Shape(frozenset({type_of(value)}), shown, values=frozenset({shown}), exact=exact)


def place_shape(schemas: Iterable[Any], root: Schema, place: Place) -> Shape:
    """Return the shape of a place for which any of some schemas may hold."""
    given = [*schemas]
    types = frozenset[str]().union(*(_types(schema, root) for schema in given))
    found = schemas_among(given)
    values = _values(found, root) if len(found) == len(given) else None
    return Shape(types, ".".join(place) or "it", place, tuple(found), values)


def item_shape(array: Shape, root: Schema) -> Shape:
    """Return the shape of the items of an array; they have the label of the whole."""
    parts = list(alternatives(array.schemas, root))
    found = [*schemas_among(part.get("items") for part in parts)]
    longest = max((len(part.get("prefixItems", ())) for part in parts), default=0)
    found += [schema for index in range(longest) for schema in of_item(parts, index)]
    item = place_shape(found or [{}], root, ())
    use = array.use or use_of("", alternatives(item.schemas, root))
    return replace(item, label=f"an item of {array.label}", use=use)


@dataclass(frozen=True, slots=True)
class FoundField:
    """A field that the schema of an object knows of.

    Args:
        shape: Its values.
        is_required: Whether it is always there.
    """

    shape: Shape
    is_required: bool


def field_of(owner: Shape, name: str, root: Schema, *, is_filled: bool) -> FoundField | None:
    """Return a field of an object, None where the schema does not declare it.

    Args:
        owner: The object.
        name: The field's name.
        root: The schema that references point into.
        is_filled: Whether what was left out is there with its default.
    """
    place = (*owner.place, name) if owner.place else ()
    if not owner.schemas or owner.types > {"object", "null"}:
        # Nothing is known of it.
        return FoundField(place_shape([{}], root, place), is_required=False)
    parts = list(alternatives(owner.schemas, root))
    objects = [part for part in parts if "properties" in part or part.get("type") == "object"]
    declared = [part for part in objects if name in part.get("properties", {})]
    if declared:
        shape = place_shape([part["properties"][name] for part in declared], root, place)
        is_required = all(_requires(part, name, is_filled=is_filled) for part in objects)
        return FoundField(shape, is_required)
    others = [schema for part in objects for schema in _other_fields(part)]
    if others and (len(owner.place) > 1 or {} not in others):
        return FoundField(place_shape(others, root, place), is_required=False)
    return None


def names_in(owner: Shape, root: Schema) -> list[str]:
    """Return the names of the fields that the schema of an object declares."""
    parts = alternatives(owner.schemas, root)
    return [name for part in parts for name in part.get("properties", ())]


def _requires(part: Schema, name: str, *, is_filled: bool) -> bool:
    if name in part.get("required", ()):
        return True
    said = part.get("properties", {}).get(name)
    return is_filled and isinstance(said, Mapping) and "default" in said


def _other_fields(part: Schema) -> list[Schema]:
    """Return the schemas of fields without a name in an object's schema; {} for any value."""
    found = [*part.get("patternProperties", {}).values()]
    others = part.get("additionalProperties", "properties" not in part)
    if others is True:
        found.append({})
    return schemas_among([*found, others])


def _types(given: object, root: Schema, deep: int = 0) -> frozenset[str]:
    if not isinstance(given, Mapping) or deep > _DEEP:
        return ANYTHING if given is not False else frozenset()
    schema = cast("Schema", given)
    said: Any = schema.get("type", ANYTHING)
    names: Iterable[str] = [said] if isinstance(said, str) else said
    found = frozenset("number" if name == INTEGER else name for name in names)
    if (values := _listed(schema)) is not None:
        found &= set(map(type_of, values))
    if "$ref" in schema:
        found &= _types(pointed(root, schema["$ref"]), root, deep + 1)
    for inner in schema.get("allOf", ()):
        found &= _types(inner, root, deep + 1)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            several = (_types(inner, root, deep + 1) for inner in schema[key])
            found &= frozenset[str]().union(*several)
    return found


def _values(schemas: Iterable[Schema], root: Schema) -> frozenset[str] | None:
    found: set[str] = set()
    for part in alternatives(schemas, root):
        values = _listed(part)
        if values is not None:
            found.update(json.dumps(value, ensure_ascii=False) for value in values)
        elif part.get("type") == "null":
            found.add("null")
        elif part.keys().isdisjoint(("$ref", "anyOf", "oneOf")):
            return None
    return frozenset(found)


def _listed(schema: Schema) -> Sequence[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")
