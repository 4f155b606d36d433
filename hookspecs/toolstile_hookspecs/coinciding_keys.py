"""Keys that JSON writes alike: with those, what is read holds less than what was written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from toolstile_hookspecs.unwritable import NOT_FINITE

COINCIDING: Final = "it holds two keys that JSON writes alike"

# Two of one of these are written differently; those of a union may be written alike.
_DISTINCT: Final = ("str", "int", "bool", "date", "uuid")
_UNTYPED: Final = ("any", "is-instance", "function-plain")
# Values, and how something is written by a function or read from Python.
_ASIDE: Final = ("cls", "config", "default", "metadata", "python_schema", "serialization")
_INFINITE: Final = re.compile(rb'"(?:None|nan|-?inf)":')


def could_coincide(schema: object) -> bool:
    """Tell whether keys of what fits a pydantic core schema could be written alike.

    Args:
        schema: As `TypeAdapter.core_schema` has it, or a part of it.

    Example:
        >>> from pydantic import TypeAdapter
        >>> could_coincide(TypeAdapter(dict[int | str, int]).core_schema)
        True
        >>> could_coincide(TypeAdapter(dict[str, list[int]]).core_schema)
        False
    """
    if isinstance(schema, Mapping):
        node = cast("Mapping[str, Any]", schema)
        kind = node.get("type")
        # What has no type are the fields of something, by their names.
        aside = _ASIDE if isinstance(kind, str) else ()
        if kind in _UNTYPED or _is_open(node) or (kind == "dict" and _has_any_keys(node)):
            return True
        return any(could_coincide(each) for name, each in node.items() if name not in aside)
    return isinstance(schema, (list, tuple)) and any(
        map(could_coincide, cast("Iterable[object]", schema))
    )


def distinct(text: bytes, plain: Callable[[], object]) -> bytes:
    """Return JSON text unless keys in it coincide, or stand for NaN or Infinity.

    Args:
        text: What a value was written as.
        plain: Gives the value as plain data, with its keys as they are.

    Raises:
        ValueError: When a reader would find fewer entries, or other keys.

    Example:
        >>> distinct(b'{"1":"a","1":"b"}', lambda: {1: "a", "1": "b"})
        Traceback (most recent call last):
        ValueError: it holds two keys that JSON writes alike
    """
    if b'":' not in text:
        return text
    if not _comes_back_whole(text):
        json.loads(text, object_pairs_hook=_refuse_coinciding)
    if _INFINITE.search(text) and _has_infinite_key(plain()):
        raise ValueError(NOT_FINITE)
    return text


def _comes_back_whole(text: bytes) -> bool:
    """Tell whether a text is as long when it has been read; to look at each name takes longer."""
    try:
        return len(to_json(from_json(text))) == len(text)
    except ValueError:  # it is nested too deeply to be read so
        return False


def _is_open(node: Mapping[str, Any]) -> bool:
    """Tell whether an object may have fields of any type beyond its own."""
    config: object = node.get("config")
    is_mapping = isinstance(config, Mapping)
    return is_mapping and cast("Mapping[str, Any]", config).get("extra_fields_behavior") == "allow"


def _has_any_keys(node: Mapping[str, Any]) -> bool:
    return node.get("keys_schema", {}).get("type") not in _DISTINCT


def _has_infinite_key(value: object) -> bool:
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        found = any(isinstance(key, float) and not math.isfinite(key) for key in mapping)
        return found or any(map(_has_infinite_key, mapping.values()))
    return any(map(_has_infinite_key, _items(value)))


def _items(value: object) -> Iterable[object]:
    is_several = isinstance(value, (list, tuple, set, frozenset))
    return cast("Iterable[object]", value) if is_several else ()


def _refuse_coinciding(pairs: list[tuple[str, Any]]) -> None:
    if len(dict.fromkeys(name for name, _ in pairs)) < len(pairs):
        raise ValueError(COINCIDING)
