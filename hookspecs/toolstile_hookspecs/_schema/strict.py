"""Strict JSON: names given twice and numbers out of range are errors.

Sources of the rules: RFC 8259, sections 4 (names should be unique) and 6 (NaN and the
infinities are not JSON; a number that no double can hold is not interoperable).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Mapping
from math import inf
from operator import attrgetter
from typing import Any, Final, NoReturn

import pydantic_core

from toolstile_hookspecs._schema.validation_errors import shorten
from toolstile_hookspecs.errors import ToolValidationError


def check_names(text: str | bytes) -> None:
    """Refuse valid-looking JSON that strict readers refuse.

    A cheap count tells most texts apart: when what was read has as many colons written again
    as the text, no name is lost. An escape could hide a colon, so texts with one, and
    whatever else that cannot settle, are read again, slowly.

    Args:
        text: JSON that a lenient reader has accepted already.

    Raises:
        ToolValidationError: For a name twice in one object, NaN, an infinity, or a number
            out of range such as `1e999`.

    Example:
        >>> check_names('{"time": "10:30"}')
        >>> check_names('{"a": 1, "a": 2}')
        Traceback (most recent call last):
        ...
        toolstile_hookspecs.errors.ToolValidationError: Invalid arguments: the name 'a' is given \
twice in one object. Give it once, then retry.
    """
    try:
        again = pydantic_core.to_json(pydantic_core.from_json(text, allow_inf_nan=False))
    except ValueError:
        again = b""
    colon, escape = (b":", b"\\u") if isinstance(text, bytes) else (":", "\\u")
    same = again.count(b":") == text.count(colon) and escape not in text  # type: ignore[operator, arg-type]
    if same and b"Infinity" not in again:
        return
    _STRICT.decode(text.decode() if isinstance(text, bytes) else text)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ToolValidationError(
                f"Invalid arguments: the name {shorten(name)!r} is given twice in one object. "
                "Give it once, then retry."
            )
        seen.add(name)


def _refuse_constant(name: str) -> NoReturn:
    raise ToolValidationError(
        f"Invalid arguments: {name} is not JSON. Give a finite number, then retry."
    )


def _refuse_infinite(digits: str) -> None:
    if abs(float(digits)) == inf:
        _refuse_range(digits)


def _refuse_range(digits: str) -> NoReturn:
    raise ToolValidationError(
        f"Invalid arguments: the number {shorten(digits, 20)} is out of range. "
        "Give a smaller one, or a string where one is allowed, then retry."
    )


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_refuse_infinite,
)


# --- How many names a JSON text must have had, told by the value that was read from it


NameCounter = Callable[[Any], float]
"""Counts the names that were certainly given; minus infinity where that cannot be told."""

Schema = Mapping[str, Any]

Known = Mapping[str, Schema]
"""The definitions that a schema may refer to, by their names."""

UNTOLD: Final = -inf


def name_counter(schema: Schema) -> NameCounter:
    """Return what counts the names in the values that a pydantic core schema describes.

    Args:
        schema: Of plain models, dataclasses, TypedDicts, lists and dicts of strings, numbers,
            literals and None. Values of any other are not counted: they may hold anything.

    Example:
        >>> from pydantic import TypeAdapter
        >>> count = name_counter(TypeAdapter(dict[str, list[int]]).core_schema)
        >>> count({"a": [1], "b": []})
        2
    """
    try:
        counter = _counter(schema, {})
    except _Unknown:
        return _tell_nothing
    return _count_none if counter is None else counter


class _Unknown(Exception):
    """A part of the schema of which nothing certain can be said."""


def _tell_nothing(value: Any) -> float:  # noqa: ARG001 - a counter
    return UNTOLD


def _count_none(value: Any) -> float:  # noqa: ARG001 - a counter
    return 0


def _count_finite(value: float) -> float:
    # JSON has no infinities and no NaN, which lenient readers let pass.
    return 0 if -inf < value < inf else UNTOLD


def _count_all_finite(values: Collection[float]) -> float:
    # One that is not finite leaves no sum finite.
    return _count_finite(sum(values))


class _CountAlike:
    """Counts the names of objects of which each has the same ones.

    Args:
        names: How many each has.
        numbers: What gives the numbers among what each holds, to see that they are finite.
    """

    __slots__ = ("_names", "_numbers")

    def __init__(self, names: int, numbers: Collection[Callable[[Any], float]]) -> None:
        self._names = names
        self._numbers = numbers

    def __call__(self, value: Any) -> float:
        return self.of_all((value,))

    def of_all(self, values: Collection[Any]) -> float:
        """Count the names of several, without a look at each of them."""
        for number in self._numbers:
            if not -inf < sum(map(number, values)) < inf:
                return UNTOLD
        return self._names * len(values)


def _counter(schema: Schema, known: Known) -> NameCounter | None:
    """Return the counter, None where there is nothing to count."""
    make = _MAKERS.get(schema["type"])
    if make is None:
        raise _Unknown
    return make(schema, known)


def _of_definitions(schema: Schema, known: Known) -> NameCounter | None:
    more = {each["ref"]: each for each in schema["definitions"]}
    return _counter(schema["schema"], {**known, **more})


def _of_reference(schema: Schema, known: Known) -> NameCounter | None:
    # What is inside of itself is not among the known ones any more.
    name = schema["schema_ref"]
    if name not in known:
        raise _Unknown
    return _counter(known[name], {ref: each for ref, each in known.items() if ref != name})


def _of_atom(schema: Schema, known: Known) -> None:  # noqa: ARG001 - a maker
    return None


def _of_float(schema: Schema, known: Known) -> NameCounter:  # noqa: ARG001 - a maker
    return _count_finite


def _of_default(schema: Schema, known: Known) -> NameCounter | None:
    return _counter(schema["schema"], known)


def _of_nullable(schema: Schema, known: Known) -> NameCounter | None:
    inner = _counter(schema["schema"], known)
    return None if inner is None else lambda value: 0 if value is None else inner(value)


def _of_list(schema: Schema, known: Known) -> NameCounter | None:
    inner = _counter(schema["items_schema"], known)
    if inner is _count_finite:
        return _count_all_finite
    if isinstance(inner, _CountAlike):
        return inner.of_all
    return None if inner is None else lambda value: sum(map(inner, value))


def _of_dict(schema: Schema, known: Known) -> NameCounter:
    inner = _counter(schema["values_schema"], known)
    if inner is None:
        return len
    return lambda value: len(value) + sum(map(inner, value.values()))


def _of_typed_dict(schema: Schema, known: Known) -> NameCounter:
    _refuse_extra(schema)
    fields: Mapping[str, Schema] = schema["fields"]
    if any(_has_default(field) for field in fields.values()):
        raise _Unknown
    inner = _inner(fields, known)

    def count(value: dict[str, Any]) -> float:
        found: float = len(value)
        for name, counter in inner:
            if name in value:
                found += counter(value[name])
        return found

    return count


def _of_model(schema: Schema, known: Known) -> NameCounter:
    fields = schema["schema"]
    if schema.get("custom_init") or schema.get("root_model") or schema.get("post_init"):
        raise _Unknown
    if fields["type"] != "model-fields":
        raise _Unknown
    _refuse_extra(schema)
    _refuse_extra(fields)
    inner = _inner(fields["fields"], known)
    required = not any(map(_has_default, fields["fields"].values()))
    if required and all(counter is _count_finite for _, counter in inner):
        return _CountAlike(len(fields["fields"]), [attrgetter(name) for name, _ in inner])

    def count(value: Any) -> float:
        given = value.__pydantic_fields_set__
        found: float = len(given)
        if inner:
            held = value.__dict__
            for name, counter in inner:
                if name in given:
                    found += counter(held[name])
        return found

    return count


def _of_dataclass(schema: Schema, known: Known) -> NameCounter:
    arguments = schema["schema"]
    if schema.get("post_init") or schema.get("slots") or arguments["type"] != "dataclass-args":
        raise _Unknown
    _refuse_extra(schema)
    _refuse_extra(arguments)
    fields: dict[str, Schema] = {field["name"]: field for field in arguments["fields"]}
    if any(field.get("init") is False or field.get("init_only") for field in fields.values()):
        raise _Unknown
    inner = dict(_inner(fields, known))
    unchecked = not _validates_defaults(schema)
    required = [name for name, field in fields.items() if not _has_default(field)]
    plain = [name for name, field in fields.items() if unchecked and _keeps_default(field)]
    made = [name for name in inner if name not in required and name not in plain]
    counted = tuple((name, inner[name]) for name in required if name in inner)
    told = tuple(
        (name, fields[name]["schema"]["default"], inner.get(name, _count_none)) for name in plain
    )

    def count(value: Any) -> float:
        held = value.__dict__
        found: float = len(required)
        for name, counter in counted:
            found += counter(held[name])
        # What is the default itself may have been given or not; only what differs was given.
        for name, default, counter in told:
            if held[name] is not default:
                found += 1 + counter(held[name])
        return UNTOLD if made and any(held[name] for name in made) else found

    return count


def _inner(fields: Mapping[str, Schema], known: Known) -> tuple[tuple[str, NameCounter], ...]:
    found: list[tuple[str, NameCounter]] = []
    for name, field in fields.items():
        # A path takes a value out of another one, so that two fields may share a name.
        if not isinstance(field.get("validation_alias", ""), str):
            raise _Unknown
        counter = _counter(field["schema"], known)
        if counter is not None:
            found.append((name, counter))
    return tuple(found)


def _has_default(field: Schema) -> bool:
    return bool(field["schema"]["type"] == "default")


def _keeps_default(field: Schema) -> bool:
    """Tell whether a field that was not given has the default itself, not a copy of it."""
    default = field["schema"]
    same = "default" in default and isinstance(default["default"], Hashable)
    return _has_default(field) and same and not _validates_defaults(default)


def _validates_defaults(schema: Schema) -> bool:
    config: Schema = schema.get("config") or {}
    return bool(schema.get("validate_default") or config.get("validate_default"))


def _refuse_extra(schema: Schema) -> None:
    config: Schema = schema.get("config") or {}
    if "allow" in {schema.get("extra_behavior"), config.get("extra_fields_behavior")}:
        raise _Unknown


_MAKERS: Final[Mapping[str, Callable[[Schema, Known], NameCounter | None]]] = {
    "definitions": _of_definitions,
    "definition-ref": _of_reference,
    **dict.fromkeys(("str", "int", "bool", "none", "literal", "enum"), _of_atom),
    "float": _of_float,
    "default": _of_default,
    "nullable": _of_nullable,
    "list": _of_list,
    "dict": _of_dict,
    "typed-dict": _of_typed_dict,
    "model": _of_model,
    "dataclass": _of_dataclass,
}
