"""The first difference between a value and the value read from its JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from itertools import chain, zip_longest
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from toolstile_hookspecs._schema.serialize import NOT_FINITE, why_unwritable
from toolstile_hookspecs._schema.validation_errors import first_fault, shorten

PLAIN: Final = frozenset({type(None), bool, int, float, str})
"""The types of the simple values of JSON."""

_WHOLE: Final = (str, bytes, bytearray, memoryview, range)
_Step = tuple[str, Any]
"""The format of a step into a value, and its argument."""


class _Nothing:
    """Stands for a part that is missing."""


_NOTHING: Final = _Nothing()


def difference(value: object, again: object, at: str = "value") -> str | None:
    """Return where a value differs from the value read from its JSON, or None.

    The types of all parts must be the same, except that an int may be read as the equal float of a
    field that declares a float. `at` is the name of the value in the text.

    Example:
        >>> difference({"a": [1, (2,)]}, {"a": [1, [2]]})
        'value.a[1] (tuple) would come back as list'
        >>> difference([1, float("nan")], [1.0, float("nan")])
    """
    found = _differing(value, again)
    if found is None:
        return None
    steps, one, other = found
    told = "another" if other in {one, _Nothing} else other.__qualname__
    return f"{_place(at, steps)} ({one.__qualname__}) would come back as {told}"


def why_not_written(value: object, error: Exception, at: str = "value") -> str:
    """Return which part of a value has no JSON form that can be read again, and why.

    The error is from writing the value, or from reading its JSON.

    Example:
        >>> why_not_written({"a": [1, object()]}, TypeError("Object of type object is not JSON"))
        'value.a[1] holds a value of type object, which has no JSON form'
    """
    if isinstance(error, ValidationError):
        return f"{at} cannot be read from the JSON that it is written as ({first_fault(error)})"
    reason = why_unwritable(error)
    with suppress(Exception):  # it may hold itself, and runs foreign code
        at = _place(at, _unwritable(value, reason) or ())
    return f"{at}{reason[2:]}" if reason.startswith("it ") else f"{at}: {reason}"


def _place(at: str, steps: Iterable[_Step]) -> str:
    return at + "".join(form.format(shorten(str(name))) for form, name in steps)


def _differing(value: object, again: object) -> tuple[list[_Step], type[Any], type[Any]] | None:
    """Return the steps to the first part that differs, and both its types."""
    one, other = type(value), type(again)
    if one is not other:
        is_same = one is int and other is float and value == again
        return None if is_same else ([], one, other)
    if value is again:
        return None
    parts = None if one in PLAIN else _parts(one, value, again)
    if parts is None:
        return None if _equal(value, again) else ([], one, other)
    for form, name, part, counterpart in parts:
        # In most values most parts are plain.
        plain = type(part) is type(counterpart) and type(part) in PLAIN and part == counterpart
        if not plain and (found := _differing(part, counterpart)) is not None:
            return [(form, name), *found[0]], found[1], found[2]
    return None


def _equal(value: Any, again: Any) -> bool:
    if isinstance(value, (datetime, time)):
        # In the hour that comes twice, a moment is unequal to itself in another zone.
        return bool(value.isoformat() == again.isoformat())
    return bool(value == again or (value != value and again != again))  # noqa: PLR0124 - NaN


def _unwritable(value: object, reason: str) -> list[_Step] | None:
    """Return the steps to the first part without parts that has no JSON form for a reason."""
    parts = _parts(type(value), value, value)
    if parts is None:
        try:
            to_json(value)
            why = NOT_FINITE if isinstance(value, float) and not math.isfinite(value) else ""
        except Exception as error:  # noqa: BLE001 - its reason is the result
            why = why_unwritable(error)
        return [] if why == reason else None
    for form, name, part, _ in parts:
        if (steps := _unwritable(part, reason)) is not None:
            return [(form, name), *steps]
    return None


def _parts(
    type_: type[object], value: Any, again: Any
) -> Iterable[tuple[str, Any, Any, Any]] | None:
    """Return the steps to the parts of two values of a type, and both parts; None for none."""
    if is_dataclass(type_):
        names = [part.name for part in fields(value)]
        return (
            (".{}", name, getattr(value, name, _NOTHING), getattr(again, name, _NOTHING))
            for name in names
        )
    if issubclass(type_, Mapping):
        keys = ({key: key for key in each} for each in (value, again))
        return chain(_named(" (key {})", *keys), _named(".{}", value, again))
    if issubclass(type_, AbstractSet):
        return _named("{{{}}}", *({part: part for part in each} for each in (value, again)))
    if issubclass(type_, Sequence) and not issubclass(type_, _WHOLE):
        pairs = enumerate(zip_longest(value, again, fillvalue=_NOTHING))
        return (("[{}]", number, *pair) for number, pair in pairs)
    if issubclass(type_, BaseModel):
        return _named(".{}", _fields_of(value), _fields_of(again))
    return None


def _fields_of(model: BaseModel) -> dict[str, Any]:
    known = model.__class__.model_fields  # others are properties that were cached
    own = {name: part for name, part in vars(model).items() if name in known}
    return own | (model.__pydantic_extra__ or {}) | (model.__pydantic_private__ or {})


def _named(
    form: str, one: Mapping[Any, Any], other: Mapping[Any, Any]
) -> Iterable[tuple[str, Any, Any, Any]]:
    for name in {**one, **other}:
        yield form, name, one.get(name, _NOTHING), other.get(name, _NOTHING)
