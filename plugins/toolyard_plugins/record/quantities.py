"""Quantities as people read them."""

from __future__ import annotations


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
