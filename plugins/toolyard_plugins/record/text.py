"""Text from a record, made fit for a terminal."""

from __future__ import annotations

import unicodedata
from typing import Final

_STEERING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def one_line(text: str) -> str:
    r"""Return the text on one line, with everything escaped that could steer a terminal.

    Example:
        >>> one_line("two\nlines, \x1b[31mred")
        'two\\nlines, \\x1b[31mred'
    """
    if text.isprintable():
        return text
    return "".join(_escaped(each) if _steers(each) else each for each in text)


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _STEERING


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def duration(seconds: float) -> str:
    """Return a time as short as it is still telling.

    Example:
        >>> [duration(each) for each in (0.0004, 0.012, 3.21)]
        ['0.4 ms', '12.0 ms', '3.2 s']
    """
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def counted(number: int, thing: str) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
