"""Shared parts of what plugins show to people: subcommands, consoles, tables, and questions."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs.support.terminal import environment

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from toolstile_hookspecs import Tool

    Adder = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 - has no other name  # pyright: ignore[reportPrivateUsage]


ENDLESS: Final = 100_000
"""Columns where nobody counts them."""


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


def add_subcommand(
    adder: Adder, name: str, says: str, examples: Mapping[str, str]
) -> argparse.ArgumentParser:
    """Add a command, and return its parser.

    Args:
        adder: What `add_subparsers` returned.
        name: What is typed.
        says: One line for the help.
        examples: What is typed, and what it does.
    """
    width = max(map(len, examples))
    lines = [f"  {typed:{width}}  {does}" for typed, does in examples.items()]
    return adder.add_parser(
        name,
        help=says,
        description=f"{says[:1].upper()}{says[1:]}.",
        epilog="\n".join(["examples:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def described_category(tool: Tool[Any, Any]) -> str:
    """Return the category of a tool as a question names it.

    A foreign tool is one of deletion where its server calls it destructive: it may just overwrite.
    """
    if tool.category == "delete" and tool.origin is not None:
        return "destructive"
    return tool.category.replace("_", " ")
