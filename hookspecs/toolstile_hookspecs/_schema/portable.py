"""Typed values as JSON, for stores and other processes, and the differences after reading them.

Nothing is ever pickled. Another process has the same modules. `SnapshotError` names a value that
would not be read as the same value.
"""

from __future__ import annotations

import base64
import importlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final, cast
from uuid import UUID

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from toolstile_hookspecs._schema.serialize import NOT_FINITE, why_unwritable
from toolstile_hookspecs._schema.validation_errors import first_fault, shorten
from toolstile_hookspecs.errors import SnapshotError

_SERIES: Final[dict[str, Any]] = {
    series.__name__: series for series in (list, tuple, set, frozenset)
}
_DATA: Final = (BaseModel, Enum, date, time, timedelta, Decimal, UUID, PurePath)


def found_at(place: str) -> Any:
    """Return the class or function at a place of a module that is loaded, None for nothing.

    Example:
        >>> found_at("json:JSONDecoder").__name__
        'JSONDecoder'
    """
    module, _, path = place.partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        # No attribute is asked for: modules and metaclasses may run code for that.
        found = vars(found).get(name) if isinstance(found, (ModuleType, type)) else None
    return found


def imported_from(place: str) -> Any:
    """Return the class or function at a place; its module is imported."""
    importlib.import_module(place.partition(":")[0])
    return found_at(place)


def place_of(thing: Any) -> str | None:
    """Return the place of a class or function, None where no import finds it there.

    Example:
        >>> place_of(UUID), place_of(lambda: None)
        ('uuid:UUID', None)
    """
    place = f"{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', '')}"
    return place if found_at(place) is thing else None


class PortableValues:
    """Writes values as JSON and reads them as the same values.

    These are JSON values, bytes, classes, lists, tuples and sets; dataclasses, pydantic models,
    named tuples, enums, dates and the like, as sessions store them; and values made of these.

    Args:
        find: Finds the class at a place. With `found_at` no text imports a module.

    Example:
        >>> values = PortableValues()
        >>> values.read(values.write({"day": date(2026, 11, 1), "parts": (b"a", 1)}))
        {'day': datetime.date(2026, 11, 1), 'parts': (b'a', 1)}
    """

    def __init__(self, find: Callable[[str], Any] = found_at) -> None:
        self._find = find

    def write(self, value: Any, at: str = "value") -> Any:
        """Return a value as plain JSON from which an equal value is read.

        Raises:
            SnapshotError: If there is none; names the part, by `at`, its type and the remedy.
        """
        type_: type[Any] = value.__class__
        if type_ in PLAIN:
            return value
        if type_ is dict:
            for strange in (type(key).__qualname__ for key in value if type(key) is not str):
                remedy = "use texts, or a field that declares the type of its keys"
                raise SnapshotError(f"{at} has a key ({strange}) that is not a text; {remedy}.")
            return {key: self.write(part, f"{at}.{key}") for key, part in value.items()}
        if type_ is bytes:
            return ["bytes", base64.b64encode(value).decode()]
        if isinstance(value, type):
            return ["type", self._place(value, at)]
        if type_ in _SERIES.values():
            return [type_.__name__, *self._items([*value], at)]
        return ["one", *self._of_type(type_, [value], at, "[0]")]

    def read(self, written: Any) -> Any:
        """Return the value that was written; raises `SnapshotError` or `ValueError`."""
        if isinstance(written, dict):
            parts = cast("dict[str, Any]", written)
            return {key: self.read(part) for key, part in parts.items()}
        match written:
            case ["bytes", str(text)]:
                return base64.b64decode(text, validate=True)
            case ["type", str(place)]:
                return self._found(place)
            case ["one", str(place), [item]]:
                return self._read_items(place, [item])[0]
            case [str(series), str(place), items] if series in _SERIES:
                return _SERIES[series](self._read_items(place, items))
            case list():
                raise ValueError("a list in it has none of the forms of a value")
            case _:
                return written

    def is_data(self, type_: type[Any]) -> bool:
        """Tell whether values of a type are written as sessions store them."""
        is_named_tuple = tuple in type_.__mro__ and hasattr(type_, "_fields")
        return is_named_tuple or is_dataclass(type_) or issubclass(type_, _DATA)

    def _items(self, items: list[Any], at: str) -> tuple[str, list[Any]]:
        """Return the place of the type that all items have, "" for several, and the items."""
        types = set(map(type, items))
        if types <= PLAIN:
            return "", items
        if len(types) == 1 and self.is_data(type_ := types.pop()):
            return self._of_type(type_, items, at)
        return "", [self.write(item, f"{at}[{number}]") for number, item in enumerate(items)]

    def _of_type(
        self, type_: type[Any], items: list[Any], at: str, step: str = ""
    ) -> tuple[str, list[Any]]:
        self._check(type_, at)
        place = self._place(type_, at)
        try:
            text = text_of(type_, items)
            fault = difference(items, items_of(type_, text), "")
        except Exception as error:  # noqa: BLE001 - foreign validators; the reason is reported
            text, fault = b"", why_not_written(items, error, "")
        if fault is not None:
            raise SnapshotError(
                f"{at}{fault.removeprefix(step)}; let the field name the type of its content, or "
                "use JSON values, and keep secrets elsewhere."
            )
        return place, from_json(text)

    def _read_items(self, place: str, items: list[Any]) -> list[Any]:
        if not place:
            return [self.read(item) for item in items]
        type_ = self._found(place)
        self._check(type_, "it")
        return loaded(type_, items)

    def _check(self, type_: type[Any], at: str) -> None:
        if not self.is_data(type_):
            raise SnapshotError(
                f"{at} ({type_.__qualname__}) is not data; use JSON values, bytes, a dataclass, a "
                "pydantic model, a named tuple or an enum."
            )

    def _place(self, type_: type[Any], at: str) -> str:
        if (place := place_of(type_)) is None:
            name = f"{type_.__module__}.{type_.__qualname__}"
            raise SnapshotError(
                f"{at} needs {name}, which another process does not find; define it at the top "
                "level of a module."
            )
        return place

    def _found(self, place: str) -> type[Any]:
        found = self._find(place)
        if not isinstance(found, type):
            raise SnapshotError(
                f"There is no type {place} in this process; import its module before the call."
            )
        return cast("type[Any]", found)


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
        if isinstance(value, (datetime, time)):
            # In the hour that comes twice, a moment is unequal to itself in another zone.
            value, again = value.isoformat(), cast("time", again).isoformat()
        is_same = value == again or (value != value and again != again)  # noqa: PLR0124 - NaN
        return None if is_same else ([], one, other)
    for form, name, part, counterpart in parts:
        # In most values most parts are plain.
        plain = type(part) is type(counterpart) and type(part) in PLAIN and part == counterpart
        if not plain and (found := _differing(part, counterpart)) is not None:
            return [(form, name), *found[0]], found[1], found[2]
    return None


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


OF_FILE: Final = re.compile(r"^toolstile_file_[0-9a-f]{8}_")
"""The part of a plugin file's module name that depends on its place."""


def type_name(kind: type[Any]) -> str:
    """Return the name of a type in JSON: the outermost package that exports it, and its path.

    So a stored class keeps its name while it moves between the modules of that package, and one
    of a plugin file wherever that is.

    Example:
        >>> from pathlib import Path
        >>> from toolstile_plugins.planning import Plan
        >>> type_name(Path), type_name(Plan)
        ('pathlib:Path', 'toolstile_plugins.planning:Plan')
    """
    module, path = kind.__module__, kind.__qualname__
    parts = module.split(".")
    for depth in range(1, len(parts)):
        package = sys.modules.get(".".join(parts[:depth]))
        if getattr(package, path, None) is kind:
            return f"{'.'.join(parts[:depth])}:{path}"
    return f"{OF_FILE.sub('', module)}:{path}"


def dumped(kind: Any, items: Iterable[Any]) -> Any:
    """Return items of a type as JSON values."""
    return from_json(_text_of(kind, items))


def text_of(kind: Any, items: Iterable[Any]) -> bytes:
    """Return items of a type as JSON text; raises exceptions of pydantic."""
    # Not `dump_json`: a model would write infinities as null, which cannot be read back.
    plain = _adapter(kind).dump_python(list(items), mode="json", warnings=False)
    return to_json(plain, inf_nan_mode="strings")


def _text_of(kind: Any, items: Iterable[Any]) -> bytes:
    try:
        return text_of(kind, items)
    except Exception as error:
        raise SnapshotError(
            f"Items of {type_name(kind)} cannot be written as JSON: {_first_line(error)} Make "
            "it a dataclass, a pydantic model or a named tuple of JSON-like fields, whose texts "
            "hold no lone surrogates."
        ) from error


def loaded(kind: Any, items: list[Any] | str) -> list[Any]:
    """Return the items of a type that JSON values, or the text of their array, stand for."""
    try:
        return items_of(kind, items if isinstance(items, str) else json.dumps(items))
    except Exception as error:
        raise SnapshotError(
            f"The items of {type_name(kind)} do not fit that type: {_misfit(error)} The type may "
            "have changed since they were written; bring the JSON up to date first."
        ) from error


def dumped_exactly(kind: type[Any], items: Iterable[Any]) -> list[Any]:
    """Return items of a type as JSON values from which the same items are read."""
    items = list(items)
    text = _text_of(kind, items)
    try:
        again = items_of(kind, text)
    except Exception as error:
        raise SnapshotError(
            f"Items of {type_name(kind)} cannot be written as JSON, since they could not be read "
            f"again: {_misfit(error)} It must be possible to make {kind.__qualname__} of its "
            "fields again."
        ) from error
    for number, (item, other) in enumerate(zip(items, again, strict=True), 1):
        # A list or a dict has no types of its items, which are then read as JSON.
        if item != other and _as_json(item) != other:
            raise SnapshotError(
                f"Items of {type_name(kind)} cannot be written as JSON: item number {number} "
                "would be read as another. It is of a subclass; or a field of it holds a secret, "
                "NaN, a subclass of the type that it names or, where that is Any, no plain JSON; "
                "or the class has no `__eq__`. Keep secrets elsewhere, items in the slice of their "
                "own type, and make the field name the type of its content."
            )
    written: list[Any] = from_json(text)
    return written


def _as_json(value: object) -> Any:
    try:
        return to_jsonable_python(value, by_alias=False)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    items: Any = list[kind]
    return TypeAdapter(items)


def items_of(kind: Any, text: str | bytes) -> list[Any]:
    """Return the items of a type in JSON text; raises exceptions of pydantic."""
    # They are written by the names of their fields, whatever else these are called.
    read = _adapter(kind).validate_json(text, by_name=True, by_alias=True)
    return cast("list[Any]", read)


def _misfit(error: Exception) -> str:
    return f"{first_fault(error)}." if isinstance(error, ValidationError) else _first_line(error)


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0].rstrip(".")
    return f"{line or type(error).__qualname__}."
