"""What the commands of plugins show: plain, and nothing cut or broken, where that is a pipe."""

from __future__ import annotations

import os
import sys
from typing import Final

from rich.console import Console
from rich.table import Table

from toolstile_hookspecs.support.terminal import environment

ENDLESS: Final = 100_000
"""Columns where nobody counts them."""


def console() -> Console:
    """Return a console on standard output, for text in which nothing is markup."""
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
