"""Text that others wrote, made fit for a terminal: it may name a colour, and set none."""

from __future__ import annotations

import unicodedata
from typing import Final

_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS: Final = frozenset("\u200c\u200d\ufe0f")
"""Invisible, but parts of words and emoji, and harmless."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text on one line, with everything escaped that could steer a terminal.

    Control and format characters (also those that turn the direction of writing), line
    separators and lone surrogates become `\x1b` and the like.

    Args:
        text: The text.
        keep: Characters that are left as they are, such as newlines.

    Example:
        >>> printable("red: \x1b[31m,\n")
        'red: \\x1b[31m,\\n'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each in keep or not _is_steering(each) else _escaped(each) for each in text
    )


def printable_lines(text: str) -> list[str]:
    """Return the lines of a text, each printable; only a newline ends one."""
    return [printable(line.expandtabs(4)) for line in text.rstrip("\n").split("\n")]


def _is_steering(character: str) -> bool:
    return unicodedata.category(character) in _UNPRINTABLE and character not in _JOINERS


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
