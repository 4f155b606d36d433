"""A walk over pydantic's core schemas, and questions about types that it answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, cast

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, SchemaValidator, to_json

Schema = Mapping[str, Any]
Extra = Literal["forbid", "ignore"] | None
"""The rule for unknown names while JSON is read; None leaves it to each type."""

_VALUES: Final = frozenset(
    ("cls", "computed_fields", "config", "default", "expected", "function", "members", "metadata")
)
_NOT_FOR_JSON: Final = frozenset(("lax_schema", "python_schema", "serialization"))
# As `Any`: type checkers do not know the content of a core schema.
DICT: Final[Any] = dict
LISTS: Final[Any] = (list, tuple)
ASIDE: Final = _VALUES | _NOT_FOR_JSON
"""The keys of a part that hold no parts, or none that reads JSON strictly."""


def parts(schema: Any, *, ends: Callable[[Schema], bool] | None = None) -> Iterator[Schema]:
    """Yield the typed parts of a core schema that read JSON, fields included.

    Parts for which `ends` is true are left out, with all parts within them.

    Example:
        >>> from pydantic import TypeAdapter
        >>> [part["type"] for part in parts(TypeAdapter(dict[str, int]).core_schema)]
        ['dict', 'str', 'int']
    """
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, LISTS):
            waiting += reversed(part)
        elif isinstance(part, DICT):
            # A part without a type holds fields or choices by their names.
            is_typed = isinstance(part.get("type"), str)
            if is_typed:
                if ends is not None and ends(part):
                    continue
                yield part
            aside = ASIDE if is_typed else ()
            waiting += reversed([inside for name, inside in part.items() if name not in aside])


def rewritten(part: Any, change: Callable[[Schema], Schema]) -> Any:
    """Return a core schema with each typed part changed, innermost first."""
    if isinstance(part, LISTS):
        return type(part)(rewritten(inside, change) for inside in part)
    if not isinstance(part, DICT):
        return part
    is_typed = isinstance(part.get("type"), str)
    aside = ASIDE if is_typed else ()
    new = {
        name: inside if name in aside else rewritten(inside, change)
        for name, inside in part.items()
    }
    return change(new) if is_typed else new


def hides(part: Schema) -> bool:
    """Tell whether a part is one of pydantic's secrets, which it writes masked."""
    writing: Schema = part.get("serialization") or {}
    function = writing.get("function")
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', '')}"
    # Its schema has no other mark.
    return name.startswith("pydantic.types._serialize_secret")


def is_by_author(writing: Schema | None) -> bool:
    """Tell whether a `serialization` calls a function that is not pydantic's own."""
    function = (writing or {}).get("function")
    if function is None:
        return False
    module: str = getattr(function, "__module__", None) or type(function).__module__
    return module.partition(".")[0] not in {"pydantic", "operator"}


def is_searched_by_python(schema: Schema) -> bool:
    """Tell whether Python's `re` would search for a pattern, which may take for ever."""
    found = list(parts(schema))
    engines = [(part.get("config") or part).get("regex_engine") for part in found]
    patterns = [part["pattern"] for part in found if part["type"] == "str" and "pattern" in part]
    is_given = any(isinstance(pattern, re.Pattern) for pattern in patterns)
    return is_given or (bool(patterns) and "python-re" in engines)


def may_lose(schema: Schema) -> bool:
    """Tell whether the JSON of some values may hold less than was read, by the author's will.

    A serializer of the author's may mask or shorten, and a field may be left out on a condition.
    """
    return any(
        is_by_author(part.get("serialization")) or part.get("serialization_exclude_if")
        for part in parts(schema)
    )


def extra_of_results(schema: Schema) -> Extra:
    """Return the rule for unknown names where a result is read from its JSON.

    Computed fields are written and cannot be read, so they are passed over.
    """
    found = list(parts(schema))
    if any(part["type"] in _OPEN and _extra(part) == "allow" for part in found):
        return None
    return "ignore" if any(part.get("computed_fields") for part in found) else "forbid"


# --- Immutable types


_IMMUTABLE: Final = frozenset(
    {
        *("none", "bool", "int", "float", "complex", "fraction", "decimal", "str", "bytes", "uuid"),
        *("date", "time", "datetime", "timedelta", "enum", "literal", "tuple", "frozenset"),
        *("nullable", "union", "tagged-union", "default", "definitions", "definition-ref"),
        *("model-fields", "model-field", "dataclass-args", "dataclass-field", "named-tuple-field"),
    }
)


def is_immutable(schema: Schema) -> bool:
    """Tell whether every value is immutable all the way down, so that it needs no copy.

    Frozen dataclasses, frozen pydantic models and named tuples count when all their fields do.
    Whatever is not certain, such as `Any` or the value of an author's validator, does not.

    Example:
        >>> from pydantic import TypeAdapter
        >>> [is_immutable(TypeAdapter(type_).core_schema) for type_ in (tuple[int], list[int])]
        [True, False]
    """
    found = list(parts(schema))
    return bool(found) and all(part["type"] in _IMMUTABLE or _is_sealed(part) for part in found)


@lru_cache(maxsize=4096)
def is_immutable_type(type_: type[Any]) -> bool:
    """Tell whether every instance of a class is immutable all the way down, see `is_immutable`."""
    try:
        return is_immutable(TypeAdapter(type_).core_schema)
    except Exception:  # noqa: BLE001 - pydantic has no schema of it: not certain
        return False


def _is_sealed(part: Schema) -> bool:
    cls: Any = part.get("cls")
    if part["type"] == "model":
        config = cls.model_config
        is_closed = config.get("extra") != "allow" and not cls.__private_attributes__
        return bool(config.get("frozen")) and is_closed
    if part["type"] == "dataclass":
        # Frozen itself, not just derived from one, and not a container at heart.
        own = cast("Schema", vars(cls)).get("__dataclass_params__")
        return own is not None and bool(own.frozen) and cls.__new__ is object.__new__
    return part["type"] == "named-tuple" and not cls.__dictoffset__


# --- Types that cannot be read from their own JSON


_OPEN: Final = frozenset(("model", "model-fields", "typed-dict"))
"""Parts that write unknown names where they allow them; a dataclass does not."""
_OBJECTS: Final = frozenset(("model", "dataclass", "typed-dict"))
_FUNCTIONS: Final = frozenset(("function-before", "function-wrap", "function-plain"))
_WRAPPERS: Final = frozenset(("model", "dataclass", "function-after"))


def why_not_read_back(schema: Schema, *, of_params: bool) -> str | None:
    """Return why values are not read from the JSON that they are written as, and the remedy.

    Parts that a function of the author reads or writes are passed over.

    Example:
        >>> from pydantic import Json, TypeAdapter
        >>> why_not_read_back(TypeAdapter(Json[int]).core_schema, of_params=False)
        'it holds a Json[...], read from a text, written without; declare the inner type'
        >>> why_not_read_back(TypeAdapter(Json[int]).core_schema, of_params=True)
    """
    for part in parts(schema, ends=_is_free):
        if part["type"] == "generator":
            return "it holds an Iterable or a Generator, which is read once only; declare a list"
        if part["type"] == "json" and not of_params:
            return "it holds a Json[...], read from a text, written without; declare the inner type"
        if part["type"] in _OBJECTS and (reason := _why_object(part, schema, of_params=of_params)):
            return reason
    return None


def _is_free(part: Schema) -> bool:
    """Tell whether a function of the author's reads or writes a part."""
    return part["type"] in _FUNCTIONS or is_by_author(part.get("serialization"))


def _why_object(part: Schema, schema: Schema, *, of_params: bool) -> str | None:
    inner = part
    while inner["type"] in _WRAPPERS:
        inner = inner["schema"]
    fields: Any = () if _is_free(inner) else inner.get("fields", ())
    if not isinstance(fields, DICT):
        fields = {field["name"]: field for field in fields}
    config: Schema = part.get("config") or {}
    owner = getattr(part.get("cls"), "__name__", "it")
    for name, field in fields.items():
        if reason := _why_field(name, field, config, of_params=of_params):
            return f"{name} of {owner} {reason}"
    computed = inner.get("computed_fields")
    if of_params or not computed or extra_of_results(schema) is not None:
        return None
    if (_extra(inner) or _extra(part) or "ignore") == "ignore":
        return None
    return (
        f"{owner} has the computed {computed[0]['property_name']}, which looks like a name that "
        "extra='allow' lets in; leave one of them out"
    )


def _why_field(name: str, field: Schema, config: Schema, *, of_params: bool) -> str | None:
    if field.get("init") is False:
        return "is written, and cannot be read (init=False); let it be given, or make it a property"
    unwritten = field.get("serialization_exclude") or field.get("init_only")
    if unwritten and of_params:
        return "is read, and never written (exclude=True or InitVar); leave it out of the params"
    required = field["schema"]["type"] != "default" and field.get("required", True)
    if required and (unwritten or field.get("serialization_exclude_if")):
        return "must be given, and is not always written; give it a default"
    written, read = field.get("serialization_alias") or name, _names_read(name, field, config)
    if unwritten or written in read:
        return None
    names = ", ".join(map(repr, read)) or "a path"
    return (
        f"is written as {written!r}, and read as {names}; give it one name for both, "
        "Field(alias=...)"
    )


def _names_read(name: str, field: Schema, config: Schema) -> list[str]:
    """Return the names under which a field is read, without paths into other values."""
    alias: Any = field.get("validation_alias")
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    names = [name] if alias is None or by_name else []
    if alias is None or config.get("validate_by_alias") is False:
        return names
    choices: list[Any] = [[alias]] if isinstance(alias, str) else alias
    paths = choices if isinstance(choices[0], list) else [choices]
    return [*names, *(path[0] for path in paths if len(path) == 1)]


def _extra(part: Schema) -> str | None:
    config: Schema = part.get("config") or {}
    return part.get("extra_behavior") or config.get("extra_fields_behavior")


# --- Reading as a schema says: strict dates, and marks of a union's alternatives in paths to faults


# Pydantic's strict mode takes a number in a text for seconds since 1970.
NOT_ISO_8601: Final = "not_iso_8601"
"""The kind of fault of a date or a time that is written otherwise."""
_TOLD: Final = 'Input should be written as ISO 8601 has it, such as "{example}"'
_EXAMPLES: Final = {"date": "2026-01-31", "datetime": "2026-01-31T09:30:00Z"}
_begins_as_date: Final = re.compile(r"\d{4}-\d{2}-\d{2}").match


def exact_validator(schema: Schema) -> SchemaValidator | None:
    """Return a validator that reads dates strictly and marks unions, None if there are none.

    Example:
        >>> from datetime import date
        >>> from pydantic import TypeAdapter
        >>> dates = TypeAdapter(list[date])
        >>> dates.validate_json('["86400"]', strict=True)
        [datetime.date(1970, 1, 2)]
        >>> exact_validator(dates.core_schema).validate_json('["2026-01-31"]', strict=True)
        [datetime.date(2026, 1, 31)]
        >>> exact_validator(TypeAdapter(list[int]).core_schema) is None
        True
    """
    if not any(part["type"] in _EXAMPLES or part["type"] in UNIONS for part in parts(schema)):
        return None
    # The prebuilt validators of classes lack the guards.
    return SchemaValidator(rewritten(schema, _guarded), _use_prebuilt=False)


def _guarded(node: Schema) -> Schema:
    if node["type"] not in _EXAMPLES:
        return marked(node)
    example = _EXAMPLES[node["type"]]
    # A separate validator reads JSON, because only from JSON a text is read strictly.
    unnamed: Any = {name: value for name, value in node.items() if name != "ref"}
    exact = SchemaValidator(unnamed)

    def read(value: object) -> object:
        if not isinstance(value, str):
            return exact.validate_python(value, strict=True)
        if not _begins_as_date(value):
            raise PydanticCustomError(NOT_ISO_8601, _TOLD, {"example": example})
        return exact.validate_json(to_json(value), strict=True)

    # Of the choices of a union, pydantic prefers a text to a date, and anything to `any`.
    function = {"type": "no-info", "function": read}
    guard = {"type": "function-after", "function": function, "schema": {"type": "any"}}
    return {**guard, "ref": node["ref"]} if "ref" in node else guard


Path = tuple[int | str, ...]

UNIONS: Final = frozenset({"union", "tagged-union"})
OTHER_TAG: Final = "other_tag"
"""The kind of fault of a value whose tag no alternative has."""
MARK: Final = "\0"
"""Begins the mark of an alternative, before its number."""
_TAGGED: Final = "\0tag"


def marked(node: Schema) -> Schema:
    """Return a part of a core schema, with marks if it is a union."""
    choices: Any = node.get("choices")
    if node["type"] == "union":
        plain: list[Any] = [part[0] if isinstance(part, tuple) else part for part in choices]
        return {**node, "choices": [(part, f"{MARK}{n}") for n, part in enumerate(plain)]}
    if node["type"] == "tagged-union":
        # A tag is a value that is read, so its mark follows it.
        one = {"type": "union", "mode": "left_to_right", "auto_collapse": False}
        tagged = {tag: {**one, "choices": [(part, _TAGGED)]} for tag, part in choices.items()}
        name, tags = node["discriminator"], json.dumps([*choices], default=str)
        told = f"{name} should be one of {tags}"
        custom = {"custom_error_type": OTHER_TAG, "custom_error_message": told}
        return {**(custom if isinstance(name, str) else {}), **node, "choices": tagged}
    return node


def union_of(path: Path, start: int) -> Path | None:
    """Return the part of a path that leads to a union with its mark at `start` or later."""
    marks = (n for n in range(start, len(path)) if str(path[n])[:1] == MARK)
    fork = next((n for n in marks if path[n] != _TAGGED), None)
    return None if fork is None else path[:fork]


def steps_of(path: Path) -> list[int | str]:
    """Return a path without alternatives."""
    tags = {n - 1 for n, part in enumerate(path) if part == _TAGGED}
    return [part for n, part in enumerate(path) if n not in tags and str(part)[:1] != MARK]
