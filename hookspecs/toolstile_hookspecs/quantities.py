"""Quantities in words, for people and models."""

from __future__ import annotations

from typing import Final

FINE: Final = 0.00995
SECOND: Final = 0.9995
MINUTE: Final = 59.95
"""Below these, a time still rounds to less than 10 ms, a second, a minute."""


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


def counted(number: int, thing: str, things: str | None = None) -> str:
    """Return a number of things.

    Example:
        >>> counted(1, "call"), counted(2000, "call"), counted(2, "directory", "directories")
        ('1 call', '2,000 calls', '2 directories')
    """
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {things or f'{thing}s'}"


def in_seconds(seconds: float) -> str:
    """Return a time in seconds, as somebody has set it.

    Example:
        >>> in_seconds(1.0), in_seconds(0.25)
        ('1 second', '0.25 seconds')
    """
    return f"{seconds:,.10g} second{'' if seconds == 1 else 's'}"
