"""The pattern of tools' names, and patterns that are searched for in linear time.

Source of the rules of patterns in schemas: ECMA-262, section 22.2.1.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any, Final

_ESCAPE: Final = (
    r"\\u\{[0-9a-fA-F]+\}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\c[a-zA-Z]|\\[pP]\{[^}]*\}|\\."
)
_TOKEN: Final = re.compile(rf"\[\^?(?:\\.|[^\]\\])*\]|{_ESCAPE}|\.", re.DOTALL)
_IN_CLASS: Final = re.compile(rf"{_ESCAPE}|\[", re.DOTALL)
_ALL: Final = r"\x00-\x{10FFFF}"
_SPACES: Final = (
    r"\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}"
)
_WHOLE: Final = {
    ".": r"[^\n\r\x{2028}\x{2029}]",
    "[]": f"[^{_ALL}]",
    "[^]": f"[{_ALL}]",
    r"\s": f"[{_SPACES}]",
    r"\S": f"[^{_SPACES}]",
}
_WITHIN: Final = {"[": r"\[", r"\b": r"\x08", r"\s": _SPACES}
_SHORT: Final = {"Letter": "L", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Number": "N"}

TOOL_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")
_NUMBER, _LABEL = r"(?:0|[1-9][0-9]*)", r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_PRE: Final = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMVER: Final = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-{_PRE}(?:\.{_PRE})*)?(?:\+{_LABEL})?"
)
"""A version as SemVer 2.0 has it, with the groups major, minor and patch."""


class NoSearchError(ValueError):
    """No pattern can be searched for, as RE2 is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Patterns cannot be searched for here: the package google-re2 is not installed. It "
            "has no wheel for every platform; build it with: python -m pip install google-re2"
        )


def bounded(pattern: str | bytes) -> Any:
    """Return a pattern of RE2, compiled.

    Args:
        pattern: What to search for: in texts, or in bytes that are UTF-8.

    Raises:
        NoSearchError: RE2 is not installed.
        ValueError: RE2 does not know the pattern, as with look-around and back-references. The
            text says what is wrong with it.
    """
    try:
        # Late: a compiled library, and few search for anything.
        re2: Any = importlib.import_module("re2")
    except ModuleNotFoundError:
        raise NoSearchError from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError as error:
        raise ValueError(error.reason) from None
    except re2.error as error:
        reason: object = error.args[0] if error.args else "not valid"
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(told) from None


def bounded_ecma(pattern: str) -> Any:
    r"""Return a pattern of ECMA-262, as JSON Schema has it, compiled by RE2.

    Raises:
        ValueError: See `bounded`.

    Example:
        >>> bool(bounded_ecma(r"^[^[\s]+\/\u{1F600}$").search("a/\U0001f600"))
        True
    """
    return bounded(_TOKEN.sub(_translated, pattern))


def _translated(found: re.Match[str]) -> str:
    text = found[0]
    if text in _WHOLE:
        return _WHOLE[text]
    if text.startswith("["):
        return f"[{_IN_CLASS.sub(lambda within: _escape(within[0], _WITHIN), text[1:-1])}]"
    return _escape(text, {})


def _escape(text: str, known: Mapping[str, str]) -> str:
    if text in known:
        return known[text]
    letter, rest = text[1:2], text[2:].strip("{}")
    match letter:
        case "u" if rest:
            halves = [int(half, 16) for half in rest.split("\\u")]
            is_pair = len(halves) > 1
            number = (halves[0] << 10) + halves[1] - 0x35FDC00 if is_pair else halves[0]
            text = f"\\x{{{number:X}}}"
        case "c" if rest:
            text = f"\\x{{{ord(rest) % 32:X}}}"
        case "p" | "P":
            name = rest.rpartition("=")[2]
            text = f"\\{letter}{{{_SHORT.get(name, name)}}}"
        case "0":
            text = r"\x00"
        case _ if not letter.isascii():
            text = letter
        case _ if letter.isalnum() and letter not in "dDwWsSbBnrtfvxk123456789":
            raise ValueError(f"{text} is not an escape of ECMA-262")
        case _:
            pass
    return text


def is_bounded(pattern: str) -> bool:
    """Tell whether a pattern of ECMA-262 can be searched for in bounded time."""
    try:
        bounded_ecma(pattern)
    except ValueError:
        return False
    return True
