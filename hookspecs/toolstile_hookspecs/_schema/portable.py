"""Typed values as JSON for another process that has the same modules; nothing is ever pickled."""

from __future__ import annotations

import base64
import importlib
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final, cast
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import from_json

from toolstile_hookspecs._schema.differences import PLAIN, difference, why_not_written
from toolstile_hookspecs._schema.stored_items import items_of, loaded, text_of
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


def _text(key: object, at: str) -> str:
    if type(key) is not str:
        fault = f"{at} has a key ({type(key).__qualname__}) that is not a text"
        raise SnapshotError(f"{fault}; use texts, or a field that declares the type of its keys.")
    return key


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
            return {_text(key, at): self.write(part, f"{at}.{key}") for key, part in value.items()}
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
