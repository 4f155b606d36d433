"""Which types come back from JSON as they were, so that their JSON can be kept in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from toolstile_hookspecs.reading_back import is_by_author

Schema = Mapping[str, Any]

Known = Mapping[str, Schema]
"""The definitions that a schema may refer to, by their names."""


def survives_json(schema: Schema) -> bool:
    """Tell whether values that fit a pydantic core schema equal what is read from their JSON.

    Plain models, dataclasses, TypedDicts, lists and dicts of strings, numbers, literals and
    None do. What has validators, serializers, aliases, or fields that are left out does not,
    as far as can be told.

    Args:
        schema: As `TypeAdapter.core_schema` has it.

    Example:
        >>> from pydantic import TypeAdapter
        >>> survives_json(TypeAdapter(dict[str, list[int]]).core_schema)
        True
        >>> survives_json(TypeAdapter(set[int | str]).core_schema)
        False
    """
    return _survives(schema, {})


def may_lose(schema: Schema) -> bool:
    """Tell whether the JSON of some values may hold less than was read, by the author's will.

    A serializer of the author's may mask or shorten, and a field may be left out on a condition;
    only the values tell whether one does.

    Args:
        schema: As `TypeAdapter.core_schema` has it.

    Example:
        >>> from typing import Annotated
        >>> from pydantic import PlainSerializer, TypeAdapter
        >>> may_lose(TypeAdapter(list[Annotated[str, PlainSerializer(len)]]).core_schema)
        True
        >>> may_lose(TypeAdapter(list[str]).core_schema)
        False
    """
    return _loses(schema)


def _loses(part: Any) -> bool:
    if isinstance(part, (list, tuple)):
        return any(_loses(each) for each in cast("list[Any]", part))
    if not isinstance(part, dict):
        return False
    node = cast("dict[str, Any]", part)
    if not isinstance(node.get("type"), str):  # fields or choices, by their names
        return any(_loses(each) for each in node.values())
    if is_by_author(node.get("serialization")) or node.get("serialization_exclude_if"):
        return True
    return any(_loses(each) for name, each in node.items() if name not in _ASIDE)


def _survives(schema: Schema, known: Known) -> bool:
    if "serialization" in schema:
        return False
    look = _LOOKS.get(schema["type"])
    return look is not None and look(schema, known)


def _atom(schema: Schema, known: Known) -> bool:  # noqa: ARG001 - a look
    # Whatever else is said of it, such as to strip spaces, may change or refuse a value.
    return schema.keys() <= {"type", "metadata", "ref"}


def _literal(schema: Schema, known: Known) -> bool:  # noqa: ARG001 - a look
    return all(isinstance(each, (str, int, type(None))) for each in schema["expected"])


def _within(schema: Schema, known: Known) -> bool:
    return _survives(schema["schema"], known)


def _list(schema: Schema, known: Known) -> bool:
    return "items_schema" in schema and _survives(schema["items_schema"], known)


def _dict(schema: Schema, known: Known) -> bool:
    if "keys_schema" not in schema or "values_schema" not in schema:
        return False
    keys: Schema = schema["keys_schema"]
    plain = keys["type"] == "str" and _atom(keys, known)
    return plain and _survives(schema["values_schema"], known)


def _definitions(schema: Schema, known: Known) -> bool:
    more = {each["ref"]: each for each in schema["definitions"]}
    return _survives(schema["schema"], {**known, **more})


def _reference(schema: Schema, known: Known) -> bool:
    name = schema["schema_ref"]
    others = {ref: each for ref, each in known.items() if ref != name}
    return name in known and _survives(known[name], others)


def _typed_dict(schema: Schema, known: Known) -> bool:
    fields = schema["fields"].values()
    return _is_closed(schema) and all(_field(each, known) for each in fields)


def _model(schema: Schema, known: Known) -> bool:
    fields = schema["schema"]
    if fields["type"] != "model-fields" or schema["cls"].__private_attributes__:
        return False
    if schema.get("custom_init") or schema.get("root_model") or schema.get("post_init"):
        return False
    closed = _is_closed(schema) and _is_closed(fields)
    return closed and all(_field(each, known) for each in fields["fields"].values())


def _dataclass(schema: Schema, known: Known) -> bool:
    arguments = schema["schema"]
    if arguments["type"] != "dataclass-args" or schema.get("post_init"):
        return False
    closed = _is_closed(schema) and _is_closed(arguments)
    return closed and all(_field(each, known) for each in arguments["fields"])


def _field(field: Schema, known: Known) -> bool:
    changing = {"validation_alias", "serialization_alias", "serialization_exclude", "init_only"}
    if any(field.get(each) for each in changing) or field.get("init") is False:
        return False
    return not field.get("exclude_if") and _survives(field["schema"], known)


def _is_closed(schema: Schema) -> bool:
    config: Schema = schema.get("config") or {}
    # A title says nothing about the values; anything else might.
    plain = config.keys() <= {"title", "frozen", "extra_fields_behavior"}
    opened = {schema.get("extra_behavior"), config.get("extra_fields_behavior")}
    return plain and "allow" not in opened and not schema.get("computed_fields")


# What is no part of what is written as JSON.
_ASIDE: Final = {
    *("cls", "config", "default", "expected", "function", "members", "metadata"),
    *("computed_fields", "lax_schema", "python_schema"),
}
_LOOKS: Final[Mapping[str, Callable[[Schema, Known], bool]]] = {
    "definitions": _definitions,
    "definition-ref": _reference,
    **dict.fromkeys(("str", "int", "float", "bool", "none"), _atom),
    "literal": _literal,
    **dict.fromkeys(("default", "nullable"), _within),
    "list": _list,
    "dict": _dict,
    "typed-dict": _typed_dict,
    "model": _model,
    "dataclass": _dataclass,
}
