"""Types whose JSON is not what they are read from: found out where a tool is written.

Every field has to be read and written under one name, and params have to be written as a
whole. Where a function of the author has a say in reading or writing, only the values tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, cast

Schema = Mapping[str, Any]

Others = Literal["forbid", "ignore"] | None
"""The rule for unknown names while JSON is read; None leaves it to each type."""


def others_in(schema: Schema, *, of_params: bool) -> Others:
    """Return what has to become of other names where what was written of a type is read.

    Args:
        schema: As `TypeAdapter.core_schema` has it.
        of_params: Whether it is written to be read only, as `round_trip` of pydantic does.

    Raises:
        ValueError: When what is written cannot be read, with the reason and the remedy.

    Example:
        >>> from pydantic import Json, TypeAdapter
        >>> others_in(TypeAdapter(dict[str, int]).core_schema, of_params=False)
        'forbid'
        >>> others_in(TypeAdapter(Json[int]).core_schema, of_params=False)
        Traceback (most recent call last):
        ValueError: it is read from JSON in a text, and written without it; declare what it holds
    """
    parts = list(_walk(schema, _Part(schema, "it", "", {}, is_free=False)))
    others = "forbid" if of_params else _others(parts)
    for part in parts:
        reason = None if part.is_free else _why(part, others, of_params=of_params)
        if reason is not None:
            msg = f"{part.place} {reason}"
            raise ValueError(msg)
    return others


def is_by_author(writing: Schema | None) -> bool:
    """Tell whether a function that is not pydantic's own decides what is written.

    Args:
        writing: The `serialization` of a core schema, or None.
    """
    function = (writing or {}).get("function")
    if function is None:
        return False
    module: str = getattr(function, "__module__", None) or type(function).__module__
    return module.partition(".")[0] not in {"pydantic", "operator"}


_NESTED: Final = (dict, list, tuple)
"""The keys of a core schema that hold no values."""
_ATOMS: Final = {"any", "bool", "bytes", "float", "int", "none", "str"}
"""Parts in which nothing can be wrong and nothing is nested."""
_FUNCTIONS: Final = {"function-before", "function-wrap", "function-plain"}
_OBJECTS: Final = {"model", "dataclass", "typed-dict"}
_HOLDERS: Final = {"model-fields", "dataclass-args", "typed-dict"}
_FIELDS: Final = {"model-field", "dataclass-field", "typed-dict-field"}
_ASIDE: Final = {
    *("cls", "config", "default", "expected", "function", "members", "metadata"),
    # What is written, and what is read from Python or without strictness.
    *("computed_fields", "serialization", "lax_schema", "python_schema"),
}


class _Part(NamedTuple):
    """A part of a schema.

    Args:
        node: The part.
        place: Whose it is, in words.
        name: The name of the field that it is in.
        config: What the object around it is configured with.
        is_free: Whether a function of the author reads or writes it.
    """

    node: Schema
    place: str
    name: str
    config: Schema
    is_free: bool


def _walk(schema: Any, around: _Part) -> Iterator[_Part]:
    """Yield the parts of a schema that have a type; the schema is no mere value."""
    if isinstance(schema, (list, tuple)):
        for each in cast("list[Any]", schema):
            if isinstance(each, _NESTED):
                yield from _walk(each, around)
    else:
        node = cast("Schema", schema)
        if isinstance(node.get("type"), str):
            if node["type"] not in _ATOMS:
                yield from _walk_typed(_told(node, around))
        else:
            for inside in node.values():
                if isinstance(inside, _NESTED):
                    yield from _walk(inside, around)


def _walk_typed(part: _Part) -> Iterator[_Part]:
    yield part
    holds_fields = part.node["type"] in _HOLDERS
    for name, inside in part.node.items():
        if name == "fields" and holds_fields:
            yield from _walk_fields(part)
        elif isinstance(inside, _NESTED) and name not in _ASIDE:
            yield from _walk(inside, part)


def _walk_fields(part: _Part) -> Iterator[_Part]:
    node = part.node
    fields: Any = node["fields"]
    listed: dict[str, Schema] = (
        {each["name"]: each for each in fields} if node["type"] == "dataclass-args" else fields
    )
    given: str | None = node.get("model_name") or node.get("dataclass_name")
    holder = given or getattr(node.get("cls"), "__name__", "it")
    for name, field in listed.items():
        yield from _walk(field, part._replace(place=f"{name} of {holder}", name=name))


def _told(node: Schema, around: _Part) -> _Part:
    """Return a part with what it says itself."""
    config: Schema = (node.get("config") or {}) if node["type"] in _OBJECTS else around.config
    is_free = node["type"] in _FUNCTIONS or is_by_author(node.get("serialization"))
    return _Part(node, around.place, around.name, config, is_free or around.is_free)


def _others(parts: Iterable[_Part]) -> Others:
    objects = [part for part in parts if part.node["type"] in _HOLDERS]
    if any(_extra(part) == "allow" for part in objects):
        return None
    return "ignore" if any(_computed(part) for part in objects) else "forbid"


def _extra(part: _Part) -> str:
    """Return what an object does with other names; those of a dataclass are not written."""
    if part.node["type"] == "dataclass-args":
        return "ignore"
    own = part.node.get("extra_behavior") or part.config.get("extra_fields_behavior")
    return own or "ignore"


def _computed(part: _Part) -> list[str]:
    return [each["property_name"] for each in part.node.get("computed_fields") or ()]


def _why(part: _Part, others: Others, *, of_params: bool) -> str | None:
    """Return why a part cannot be read again, and the remedy, or None."""
    kind = part.node["type"]
    if kind == "generator":
        return "is an Iterable or a Generator, which is read once only; declare a list"
    if kind == "json" and not of_params:
        return "is read from JSON in a text, and written without it; declare what it holds"
    if kind in _FIELDS:
        return _why_field(part, of_params=of_params)
    computed = _computed(part)
    if computed and others is None and _extra(part) != "ignore":
        return (
            f"has the computed {computed[0]}, which cannot be told from the names that "
            "extra='allow' lets in; leave one of them out"
        )
    return None


def _why_field(part: _Part, *, of_params: bool) -> str | None:
    field = part.node
    if field.get("init") is False:
        return "is written, and cannot be read (init=False); let it be given, or make it a property"
    unwritten = field.get("serialization_exclude") or field.get("init_only")
    required = field["schema"]["type"] != "default" and field.get("required", True)
    if unwritten and of_params:
        return "is read, and never written (exclude=True or InitVar); leave it out of the params"
    if required and (unwritten or field.get("serialization_exclude_if")):
        return "has to be given, and is not always written; give it a default"
    written = field.get("serialization_alias") or part.name
    if unwritten or written in _names_read(part):
        return None
    read = ", ".join(map(repr, _names_read(part))) or "a path"
    return (
        f"is written as {written!r}, and read as {read}; give it one name for both, "
        "Field(alias=...)"
    )


def _names_read(part: _Part) -> list[str]:
    """Return the names under which a field is read, without paths into other values."""
    alias: Any = part.node.get("validation_alias")
    config = part.config
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    names = [part.name] if alias is None or by_name else []
    if alias is None or config.get("validate_by_alias") is False:
        return names
    choices: list[Any] = [[alias]] if isinstance(alias, str) else alias
    paths = choices if isinstance(choices[0], list) else [choices]
    return [*names, *(path[0] for path in paths if len(path) == 1)]


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
    return any(_loses(each) for name, each in node.items() if name not in _NO_PARTS)


# What is no part of what is written as JSON.
_NO_PARTS: Final = {
    *("cls", "config", "default", "expected", "function", "members", "metadata"),
    *("computed_fields", "lax_schema", "python_schema"),
}
