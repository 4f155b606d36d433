"""Quantities as people read them, as they stand in all of Toolyard's tables."""

from __future__ import annotations

from typing import Final

FINE: Final = 0.00995
SECOND: Final = 0.9995
MINUTE: Final = 59.95
"""Below these, a time still rounds to less than 10 ms, a second, a minute."""


def duration(seconds: float) -> str:
    """Return a time as short as it is still telling.

    Example:
        >>> [duration(each) for each in (0.0004, 0.012, 3.21, 125)]
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
