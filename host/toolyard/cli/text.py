"""Text from elsewhere, made fit for a terminal, and quantities and lists for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolyard_hookspecs.terminals import printable

FINE: Final = 0.00995
SECOND: Final = 0.9995
MINUTE: Final = 59.95
"""Below these, a time still rounds to less than 10 ms, a second, a minute."""


def with_lines(text: str) -> str:
    r"""Return the text with everything escaped that could steer a terminal, but for its lines.

    Example:
        >>> with_lines("red: \x1b[31m\n")
        'red: \\x1b[31m\n'
    """
    return printable(text, keep="\n\t")


def lines_of(text: str) -> list[str]:
    """Return the printable lines of a text, without the empty ones."""
    lines = (line.rstrip() for line in with_lines(text).expandtabs(4).split("\n"))
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


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence.

    Example:
        >>> listed(("run", "call", "tools"))
        'run, call and tools'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
