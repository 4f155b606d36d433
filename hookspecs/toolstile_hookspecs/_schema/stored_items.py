"""Items of one type as JSON values; `SnapshotError` if they are not read as the same items."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json, to_jsonable_python

from toolstile_hookspecs._schema.validation_errors import first_fault
from toolstile_hookspecs.errors import SnapshotError

OF_FILE: Final = re.compile(r"^toolstile_file_[0-9a-f]{8}_")
"""The part of a plugin file's module name that depends on its place."""


def type_name(kind: type[Any]) -> str:
    """Return the name of a type in JSON: the outermost package that exports it, and its path.

    So a stored class keeps its name while it moves between the modules of that package, and one
    of a plugin file wherever that is.

    Example:
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
    """Return the JSON form of a value of unknown type, or None."""
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
    """Return the first fault, and its place."""
    return f"{first_fault(error)}." if isinstance(error, ValidationError) else _first_line(error)


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0].rstrip(".")
    return f"{line or type(error).__qualname__}."
