"""Strict JSON: names given twice and numbers out of range are errors.

Sources of the rules: RFC 8259, sections 4 (names should be unique) and 6 (NaN and the
infinities are not JSON; a number that no double can hold is not interoperable).
"""

from __future__ import annotations

import json
from math import inf
from typing import Any, Final, NoReturn

import pydantic_core

from toolstile_hookspecs._schema.validation_errors import shorten
from toolstile_hookspecs.errors import ToolValidationError


def check_names(text: str | bytes) -> None:
    """Refuse valid-looking JSON that strict readers refuse.

    A cheap count tells most texts apart: when what was read has as many colons written again
    as the text, no name is lost. An escape could hide a colon, so texts with one, and
    whatever else that cannot settle, are read again, slowly.

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
        toolstile_hookspecs.errors.ToolValidationError: Invalid arguments: the name 'a' is given \
twice in one object. Give it once, then retry.
    """
    try:
        again = pydantic_core.to_json(pydantic_core.from_json(text, allow_inf_nan=False))
    except ValueError:
        again = b""
    colon, escape = (b":", b"\\u") if isinstance(text, bytes) else (":", "\\u")
    same = again.count(b":") == text.count(colon) and escape not in text  # type: ignore[operator, arg-type]
    if same and b"Infinity" not in again:
        return
    _STRICT.decode(text.decode() if isinstance(text, bytes) else text)


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


def _refuse_range(digits: str) -> NoReturn:
    raise ToolValidationError(
        f"Invalid arguments: the number {shorten(digits, 20)} is out of range. "
        "Give a smaller one, or a string where one is allowed, then retry."
    )


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_refuse_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_refuse_infinite,
)
