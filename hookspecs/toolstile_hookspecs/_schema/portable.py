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

from toolstile_hookspecs._schema.stored_items import dumped_exactly, loaded
from toolstile_hookspecs.errors import SnapshotError

_PLAIN: Final = frozenset({type(None), bool, int, float, str})
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
    named tuples, enums, dates and the like, as sessions store them; and what holds these.

    Args:
        find: Finds the class at a place. `found_at` keeps a text from importing anything.

    Example:
        >>> values = PortableValues()
        >>> values.read(values.write({"day": date(2026, 11, 1), "parts": (b"a", 1)}))
        {'day': datetime.date(2026, 11, 1), 'parts': (b'a', 1)}
    """

    def __init__(self, find: Callable[[str], Any] = found_at) -> None:
        self._find = find

    def write(self, value: Any) -> Any:
        """Return a value as plain JSON; raises `SnapshotError`, which says what to do."""
        type_: type[Any] = value.__class__
        if type_ in _PLAIN:
            return value
        if type_ is dict and all(type(key) is str for key in value):
            return {key: self.write(part) for key, part in value.items()}
        if type_ is bytes:
            return ["bytes", base64.b64encode(value).decode()]
        if isinstance(value, type):
            return ["type", self._place(value)]
        if type_ in _SERIES.values():
            return [type_.__name__, *self._items([*value])]
        return ["one", *self._of_type(type_, [value])]

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

    def _items(self, items: list[Any]) -> tuple[str, list[Any]]:
        """Return the place of the type that all items have, "" for several, and the items."""
        types = set(map(type, items))
        if types <= _PLAIN:
            return "", items
        if len(types) == 1 and self.is_data(type_ := types.pop()):
            return self._of_type(type_, items)
        return "", [self.write(item) for item in items]

    def _of_type(self, type_: type[Any], items: list[Any]) -> tuple[str, list[Any]]:
        self._check(type_)
        return self._place(type_), dumped_exactly(type_, items)

    def _read_items(self, place: str, items: list[Any]) -> list[Any]:
        if not place:
            return [self.read(item) for item in items]
        type_ = self._found(place)
        self._check(type_)
        return loaded(type_, items)

    def _check(self, type_: type[Any]) -> None:
        if not self.is_data(type_):
            raise SnapshotError(
                f"{type_.__qualname__} is no data; use JSON values, bytes, a dataclass, a pydantic "
                "model, a named tuple or an enum."
            )

    def _place(self, type_: type[Any]) -> str:
        if (place := place_of(type_)) is None:
            name = f"{type_.__module__}.{type_.__qualname__}"
            raise SnapshotError(
                f"Another process does not find {name}; define it at the top level of a module."
            )
        return place

    def _found(self, place: str) -> type[Any]:
        found = self._find(place)
        if not isinstance(found, type):
            raise SnapshotError(
                f"There is no type {place} in this process; import its module before the call."
            )
        return cast("type[Any]", found)
