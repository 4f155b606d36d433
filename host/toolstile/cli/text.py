"""Text from elsewhere, made fit for a terminal, and lists for people."""

from __future__ import annotations

from collections.abc import Sequence

from toolstile_hookspecs.support.text import printable


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


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence.

    Example:
        >>> listed(("run", "call", "tools"))
        'run, call and tools'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
