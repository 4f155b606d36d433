"""Text from elsewhere, made fit for a terminal."""

from __future__ import annotations

import unicodedata
from typing import Final

UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
JOINERS: Final = "\u200c\u200d\ufe0f"
"""Invisible, but parts of words and emoji, and harmless."""


def printable(text: str) -> str:
    r"""Return the text on one line, with everything escaped that could steer a terminal.

    Example:
        >>> printable("red: \x1b[31m")
        'red: \\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(each if _is_harmless(each) else _escaped(each) for each in text)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, each printable; only a newline ends one."""
    return [printable(line.expandtabs(4)) for line in text.rstrip("\n").split("\n")]


def _is_harmless(character: str) -> bool:
    return character in JOINERS or unicodedata.category(character) not in UNPRINTABLE


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
