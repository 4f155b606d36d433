"""Values without a JSON form, and words for a model that name the reason."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from operator import methodcaller
from typing import Final, cast

import pydantic_core
from pydantic_core import SchemaSerializer, ValidationError

from toolstile_hookspecs._schema.core_schema import Schema as CoreSchema, hides, parts, rewritten
from toolstile_hookspecs._schema.validation_errors import MAX_REASON, first_fault, not_json, shorten
from toolstile_hookspecs.errors import ToolValidationError

NOT_FINITE: Final = "it holds NaN or Infinity, which JSON cannot say"

_KNOWN: Final = (
    (re.compile(r"[Cc]ircular reference"), "it holds itself"),
    (re.compile(r"surrogates not allowed"), "it holds a lone surrogate, which is not a character"),
    (re.compile(r"invalid utf-8|codec can't decode"), "it holds bytes that are not text"),
    (re.compile(r"Out of range float"), NOT_FINITE),
    (re.compile(r"integer string conversion"), "it holds a number of thousands of digits"),
)
_STRANGER: Final = re.compile(r"unknown type: <class '(?:.*\.)?(\w+)'>|Object of type (\w+) is not")
_PREFIX: Final = re.compile(
    r"(?:Error serializing to JSON: |Error calling function `\w+`: |\w+Error: )+"
)


def why_unwritable(error: Exception) -> str:
    """Return why a value has no JSON form, from the exception of writing it.

    Example:
        >>> why_unwritable(ValueError("Circular reference detected (id repeated)"))
        'it holds itself'
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, ValidationError):
        return first_fault(error)
    text = " ".join(str(error).split())
    for pattern, told in _KNOWN:
        if pattern.search(text):
            return told
    stranger = _STRANGER.search(text)
    if stranger is not None:
        return f"it holds a value of type {stranger[1] or stranger[2]}, which has no JSON form"
    return shorten(_PREFIX.sub("", text, count=1) or type(error).__name__, MAX_REASON)


def encodable(text: str) -> str:
    r"""Return a text with its lone surrogates escaped: no provider and no file takes them.

    Names of files that are not UTF-8 hold some.

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

    `plain` gives the value as plain data.

    Raises:
        ValueError: If a model would read `null` in place of a number.
    """
    # Looking from the end takes a third of the time.
    if text.rfind(b"null") >= 0 and not _is_finite(plain()):
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


def whole_serializer(schema: CoreSchema) -> SchemaSerializer | None:
    """Return a serializer that writes params as they are read, None if pydantic's own does so.

    It writes sets in one order, and secrets in clear.
    """
    if not any(part["type"] in _SETS or hides(part) for part in parts(schema)):
        return None
    # The prebuilt serializers of classes lack these changes.
    return SchemaSerializer(rewritten(schema, _as_whole), _use_prebuilt=False)


def _sorted(value: object, write: Callable[[object], Iterable[object]]) -> list[object]:
    return sorted(write(value), key=pydantic_core.to_json)


_SETS: Final = frozenset(("set", "frozenset"))
_REVEALING: Final = {
    "type": "function-plain",
    "function": methodcaller("get_secret_value"),
    "when_used": "unless-none",
}


def _as_whole(part: CoreSchema) -> CoreSchema:
    if hides(part):
        return {**part, "serialization": _REVEALING}
    if part["type"] not in _SETS or "serialization" in part:
        return part
    function = {"type": "function-wrap", "function": _sorted, "schema": part, "when_used": "json"}
    return {**part, "serialization": function}


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
    if isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray)):
        return list(cast("Sequence[object] | AbstractSet[object]", value))
    raise ValueError(f"Unable to serialize unknown type: {type(value)}")


# --- Arguments given in Python


_ENCODER: Final = json.JSONEncoder(allow_nan=False, default=as_plain)
_PLAIN: Final = frozenset((str, int, bool))


def as_json(arguments: object) -> str | bytes:
    """Return arguments as JSON text; values are encoded as a provider would have.

    Raises:
        ToolValidationError: If they hold a value without a JSON form.
    """
    if isinstance(arguments, (str, bytes)):
        return arguments
    try:
        given = cast("dict[object, object]", arguments) if type(arguments) is dict else {(): ()}
        if _PLAIN.issuperset(map(type, (*given, *given.values()))):
            return pydantic_core.to_json(given).decode()  # in half the time
        return _ENCODER.encode(arguments)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolValidationError(not_json(why_unwritable(error))) from None
