"""Values that JSON cannot say: found out, and told in words that a model can use."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, cast

import pydantic_core
from pydantic import PydanticUserError, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from toolstile_hookspecs._schema.json_schema import PlainJsonSchema
from toolstile_hookspecs._schema.navigation import Schema, alternatives, of_item, of_property
from toolstile_hookspecs._schema.validation_errors import MAX_REASON, place, shorten

NOT_FINITE: Final = "it holds NaN or Infinity, which JSON cannot say"

_KNOWN: Final = (
    (re.compile(r"[Cc]ircular reference"), "it holds itself"),
    (re.compile(r"surrogates not allowed"), "it holds a lone surrogate, which is no character"),
    (re.compile(r"invalid utf-8|codec can't decode"), "it holds bytes that are no text"),
    (re.compile(r"Out of range float"), NOT_FINITE),
    (re.compile(r"integer string conversion"), "it holds a number of thousands of digits"),
)
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


# --- Sets in one order


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
        return sorted(items, key=_text) if _is_set(schemas) else items
    return value


def _is_set(schemas: list[Schema]) -> bool:
    # Of a choice between a list and a set, the list keeps its order.
    arrays = [each for each in schemas if each.get("type") == "array"]
    return bool(arrays) and all(_UNORDERED in each for each in arrays)


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def as_plain(value: object) -> dict[object, object] | list[object]:
    """Return a mapping as a dict, a sequence or set as a list; for pydantic's `fallback`.

    Raises:
        ValueError: When it is none of them, in pydantic's words.

    Example:
        >>> as_plain(range(2)), as_plain({"a": 1}.keys())
        ([0, 1], ['a'])
    """
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, (Sequence, AbstractSet)):
        return list(cast("Sequence[object] | AbstractSet[object]", value))
    raise ValueError(f"Unable to serialize unknown type: {type(value)}")
