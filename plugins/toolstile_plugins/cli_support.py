"""Shared parts of what plugins show to people: consoles, tables, and questions."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs.support.terminal import environment
from toolstile_hookspecs.support.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from toolstile_hookspecs import Tool


ENDLESS: Final = 100_000
"""Columns where nobody counts them."""


def printable_lines(text: str) -> list[str]:
    """Return the lines of a text, each printable; only a newline ends one."""
    return [printable(line.expandtabs(4)) for line in text.rstrip("\n").split("\n")]


def console() -> Console:
    """Return a console on standard output, for text in which nothing is markup."""
    from rich.console import Console  # most commands into a pipe draw nothing

    made = Console(
        file=sys.stdout,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        _environ=environment(),
    )
    if not made.is_terminal:
        made.width = ENDLESS
    return made


def print_table(table: Table) -> None:
    """Show a table, without blanks at the ends of its lines."""
    shown = console()
    with shown.capture() as captured:
        shown.print(table)
    for line in captured.get().splitlines():
        sys.stdout.write(f"{line.rstrip()}\n")


def described_category(tool: Tool[Any, Any]) -> str:
    """Return the category of a tool as a question names it.

    A foreign tool is one of deletion where its server calls it destructive: it may just overwrite.
    """
    if tool.category == "delete" and tool.origin is not None:
        return "destructive"
    return tool.category.replace("_", " ")
