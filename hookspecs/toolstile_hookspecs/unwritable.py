"""Values that JSON cannot say: found out, and told in words that a model can use."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, cast

from toolstile_hookspecs.faults import MAX_REASON, place, shorten

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
