"""Text from elsewhere, made fit for a terminal, and quantities as people read them."""

from __future__ import annotations

import unicodedata
from typing import Final

KEPT: Final = "\n\t"
UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
JOINERS: Final = "\u200c\u200d\ufe0f"
"""Invisible, but parts of words and emoji, and harmless."""

FINE: Final = 0.00995
SECOND: Final = 0.9995
MINUTE: Final = 59.95
"""Below these, a time still rounds to less than 10 ms, a second, a minute."""


def printable(text: str) -> str:
    r"""Return the text with everything escaped that could steer a terminal.

    Control and format characters (also those that turn the direction of writing), line
    separators and lone surrogates become `\x1b` and the like; newlines and tabs stay.

    Example:
        >>> printable("red: \x1b[31m")
        'red: \\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(each if _is_harmless(each) else _escaped(each) for each in text)


def one_line(text: str) -> str:
    r"""Return the text printable and on one line, newlines and tabs as `\n` and `\t`."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def lines_of(text: str) -> list[str]:
    """Return the printable lines of a text, without the empty ones."""
    lines = (line.rstrip() for line in printable(text).expandtabs(4).split("\n"))
    return [line for line in lines if line]


def duration(seconds: float) -> str:
    """Return a time as short as it is still telling.

    Example:
        >>> [duration(each) for each in (0.000_42, 0.0123, 3.21, 125)]
        ['0.4 ms', '12 ms', '3.2 s', '2 min 5 s']
    """
    if seconds < FINE:
        return f"{seconds * 1000:.1f} ms"
    if seconds < SECOND:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def counted(number: int, thing: str) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _is_harmless(character: str) -> bool:
    if character in KEPT or character in JOINERS:
        return True
    return unicodedata.category(character) not in UNPRINTABLE


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")
