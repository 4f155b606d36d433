"""What JSON readers let pass and strict ones do not: names given twice, numbers that are none.

Sources of the rules: RFC 8259, sections 4 (names should be unique) and 6 (NaN and the
infinities are not JSON; a number that no double can hold is not interoperable).
"""

from __future__ import annotations

import json
from math import inf
from typing import Any, Final, NoReturn

import pydantic_core

from toolyard_hookspecs.errors import ToolValidationError
from toolyard_hookspecs.faults import shorten

MAX_DIGITS: Final = 308
"""Digits of the longest whole number that a double can still hold."""

_SUSPECT: Final = -1
"""In place of a count: something has to be looked at closely."""

_BIG: Final = 10**MAX_DIGITS


def check_names(text: str | bytes) -> None:
    """Refuse valid-looking JSON that strict readers refuse.

    A cheap count tells most texts apart: as many colons as names means no name is lost.
    Whatever that cannot settle (a colon within a string, say) is read again, slowly.

    Args:
        text: JSON that a lenient reader has accepted already.

    Raises:
        ToolValidationError: For a name twice in one object, NaN, an infinity, or a number
            out of range such as `1e999`.

    Example:
        >>> check_names('{"time": "10:30"}')
        >>> check_names('{"a": 1, "a": 2}')
        Traceback (most recent call last):
        ...
        toolyard_hookspecs.errors.ToolValidationError: Invalid arguments: the name 'a' is given \
twice in one object. Give it once, then retry.
    """
    if isinstance(text, bytes):
        colons, odd = text.count(b":"), b"NaN" in text or b"Infinity" in text
    else:
        colons, odd = text.count(":"), "NaN" in text or "Infinity" in text
    if not odd and _count_names(pydantic_core.from_json(text)) == colons:
        return
    _STRICT.decode(text.decode() if isinstance(text, bytes) else text)


def _count_names(value: Any) -> int:
    """Return how many names the objects hold, or `_SUSPECT` for a number out of range."""
    kind = value.__class__
    if kind is dict:
        count, inside = len(value), value.values()
    elif kind is list:
        count, inside = 0, value
    else:
        count, inside = 0, (value,)
    for each in inside:
        kind = each.__class__
        if kind is str:
            continue
        if kind is int or kind is float:
            if not -_BIG < each < _BIG:
                return _SUSPECT
        elif kind is dict or kind is list:
            found = _count_names(each)
            if found == _SUSPECT:
                return _SUSPECT
            count += found
    return count


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ToolValidationError(
                f"Invalid arguments: the name {shorten(name)!r} is given twice in one object. "
                "Give it once, then retry."
            )
        seen.add(name)


def _refuse_constant(name: str) -> NoReturn:
    raise ToolValidationError(
        f"Invalid arguments: {name} is not JSON. Give a finite number, then retry."
    )


def _refuse_infinite(digits: str) -> None:
    if abs(float(digits)) == inf:
        _refuse_range(digits)


def _refuse_long(digits: str) -> None:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        _refuse_range(digits)


def _refuse_range(digits: str) -> NoReturn:
    raise ToolValidationError(
        f"Invalid arguments: the number {shorten(digits, 20)} is out of range. "
        "Give a smaller one, or a string where one is allowed, then retry."
    )


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_refuse_infinite,
    parse_int=_refuse_long,
)
