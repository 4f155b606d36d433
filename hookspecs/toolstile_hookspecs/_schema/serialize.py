"""Values that JSON cannot say: found out, and told in words that a model can use."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, cast

import pydantic_core
from pydantic import PydanticUserError, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema, from_json, to_json

from toolstile_hookspecs._schema.json_schema import (
    PlainJsonSchema,
    alternatives,
    of_item,
    of_property,
)
from toolstile_hookspecs._schema.validation_errors import MAX_REASON, Schema, place, shorten

NOT_FINITE: Final = "it holds NaN or Infinity, which JSON cannot say"

_KNOWN: Final = (
    (re.compile(r"[Cc]ircular reference"), "it holds itself"),
    (re.compile(r"surrogates not allowed"), "it holds a lone surrogate, which is no character"),
    (re.compile(r"invalid utf-8|codec can't decode"), "it holds bytes that are no text"),
    (re.compile(r"Out of range float"), NOT_FINITE),
    (re.compile(r"integer string conversion"), "it holds a number of thousands of digits"),
)
MAX_DIGITS: Final = sys.get_int_max_str_digits() or sys.maxsize
"""The longest number that Python reads."""
_DIGITS: Final = frozenset(b"0123456789")
_STRANGER: Final = re.compile(r"unknown type: <class '(?:.*\.)?(\w+)'>|Object of type (\w+) is not")
_PREFIX: Final = re.compile(
    r"(?:Error serializing to JSON: |Error calling function `\w+`: |\w+Error: )+"
)


def why_unwritable(error: Exception) -> str:
    """Return why a value has no JSON form, from what writing it raised.

    Example:
        >>> why_unwritable(ValueError("Circular reference detected (id repeated)"))
        'it holds itself'
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = " ".join(str(error).split())
    for pattern, told in _KNOWN:
        if pattern.search(text):
            return told
    stranger = _STRANGER.search(text)
    if stranger is not None:
        return f"it holds a value of type {stranger[1] or stranger[2]}, which has no JSON form"
    return shorten(_PREFIX.sub("", text, count=1) or type(error).__name__, MAX_REASON)


def strange_values(value: object, path: tuple[object, ...] = ()) -> Iterator[str]:
    """Yield where there is something that JSON has not, and what to write in its place.

    Args:
        value: Data of Python's own kinds, which is nested no deeper than Python can follow.
        path: Where it is.

    Example:
        >>> list(strange_values({"ids": [1, {2}]}))
        ['ids[1]: a value of type set, which has no JSON form; write a list']
    """
    if value is None or isinstance(value, (str, int, float)):
        return
    if isinstance(value, dict):
        for name, inside in cast("dict[object, object]", value).items():
            yield from strange_values(inside, (*path, name))
    elif isinstance(value, (list, tuple)):
        for index, inside in enumerate(cast("Sequence[object]", value)):
            yield from strange_values(inside, (*path, index))
    else:
        instead = _instead_of(value) if path else "a dict"
        kind = type(value).__name__
        yield f"{place(path)}: a value of type {kind}, which has no JSON form; write {instead}"


def _instead_of(value: object) -> str:
    if isinstance(value, Mapping):
        return "a dict"
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray)):
        return "a list"
    # Dates and times have no base class in common.
    return "it as text, with isoformat()" if hasattr(value, "isoformat") else "it as text or a dict"


def encodable(text: str) -> str:
    r"""Return a text with its lone surrogates escaped: no provider and no file takes them.

    Names of files that are no UTF-8 hold some, and what tools tell of may hold such names.

    Example:
        >>> encodable("caf\udce9.txt")
        'caf\\udce9.txt'
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


def finite(text: bytes, plain: Callable[[], object]) -> bytes:
    """Return JSON text unless a `null` in it stands for NaN or Infinity.

    Args:
        text: What a value was written as.
        plain: Gives the value as plain data.

    Raises:
        ValueError: When a model would read `null` where there was a number.
    """
    if b"null" in text and not _is_finite(plain()):
        raise ValueError(NOT_FINITE)
    return text


def legible(text: bytes) -> bytes:
    """Return JSON text unless it holds a number that nobody here could read again.

    Args:
        text: What a value was written as; only worth asking of more than `MAX_DIGITS` bytes.

    Raises:
        ValueError: When a number in it has more digits than Python reads.
    """
    # A number as long as that lies over one of these places; so may digits within a string.
    if any(text[place] in _DIGITS for place in range(MAX_DIGITS, len(text), MAX_DIGITS)):
        json.loads(text)
    return text


def _is_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(map(_is_finite, cast("Mapping[object, object]", value).values()))
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(
        value, (str, bytes, bytearray)
    ):
        return all(map(_is_finite, cast("Iterable[object]", value)))
    return True


# --- Sets as JSON in one order: that in which Python has them is another one in each process


Writer = Callable[..., bytes]

_UNORDERED: Final = "x-toolstile-unordered"


def may_hold_sets(schema: Schema) -> bool:
    """Tell whether the JSON Schema of a type speaks of a set; a list may be meant, too."""
    return '"uniqueItems": true' in json.dumps(schema, default=str)


def in_one_order(write: Writer, adapter: TypeAdapter[Any]) -> Writer:
    """Return what writes values of a type as JSON, the items of sets in one order.

    Args:
        write: What writes them in any order.
        adapter: That of the type.
    """
    try:
        schema = adapter.json_schema(mode="serialization", schema_generator=_TellingSets)
    except PydanticUserError:
        # Part of the type JSON Schema cannot say.
        return write

    def written(value: object, **how: bool) -> bytes:
        text = write(value, **how)
        try:
            plain = pydantic_core.from_json(text)
        except ValueError:
            # It is nested more deeply than what reads it goes.
            return text
        return pydantic_core.to_json(_ordered(plain, [schema], schema))

    return written


class _TellingSets(PlainJsonSchema):
    """Pydantic's generator, telling sets from lists whose items are different."""

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return {**super().set_schema(schema), _UNORDERED: True}

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return {**super().frozenset_schema(schema), _UNORDERED: True}


def _ordered(value: object, schemas: list[Schema], root: Schema) -> Any:
    schemas = list(alternatives(schemas, root))
    if isinstance(value, dict):
        return {
            name: _ordered(each, of_property(schemas, name), root)
            for name, each in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        items = [
            _ordered(each, of_item(schemas, index), root)
            for index, each in enumerate(cast("list[object]", value))
        ]
        return sorted(items, key=_rank) if _is_set(schemas) else items
    return value


def _is_set(schemas: list[Schema]) -> bool:
    # Of a choice between a list and a set, the list keeps its order.
    arrays = [each for each in schemas if each.get("type") == "array"]
    return bool(arrays) and all(_UNORDERED in each for each in arrays)


def _rank(value: object) -> tuple[bool, float, str]:
    """Return what tells the order of an item: numbers come first, as they are."""
    if isinstance(value, (int, float)):
        return False, value, ""
    return True, 0, json.dumps(value, sort_keys=True)


# --- Keys that JSON writes alike: with those, what is read holds less than what was written


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
