"""Shared parts of the commands of plugins: their parsers, consoles, tables, and questions.

Because the help of a command needs its parser alone, this module imports no library and not the
contract; nor do the modules `cli.py` of the plugins, which declare their commands.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from toolstile_hookspecs import HostHandle, Tool


def late(function: str) -> Callable[[HostHandle, argparse.Namespace], int]:
    """Return the function of a command, whose module is imported when the command runs.

    Args:
        function: The module and the name of the function, `module:name`.
    """

    def run(host: HostHandle, args: argparse.Namespace) -> int:
        module, _, name = function.partition(":")
        status: int = getattr(import_module(module), name)(host, args)
        return status

    return run


def listed_examples(examples: Mapping[str, str]) -> str:
    """Return the examples of a help text: for each, what is typed and what it does."""
    width = max(map(len, examples))
    lines = [f"  {typed:{width}}  {does}" for typed, does in examples.items()]
    return "\n".join(["examples:", *lines])


def subcommands(
    parser: argparse.ArgumentParser, *, required: bool = True
) -> Callable[..., argparse.ArgumentParser]:
    """Return a function that adds a command beneath a command, and returns the new parser.

    The function takes the name, one line for the help, and examples: pairs of the words after the
    name and what they do.
    """
    adder = parser.add_subparsers(dest="what", required=required)

    def add(name: str, text: str, *examples: tuple[str, str]) -> argparse.ArgumentParser:
        typed = {f"{parser.prog} {name} {rest}".rstrip(): does for rest, does in examples}
        adder.metavar = "|".join([*adder.choices, name])
        return adder.add_parser(
            name,
            help=text,
            description=f"{text[:1].upper()}{text[1:]}.",
            epilog=listed_examples(typed),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    return add


def session_name(text: str) -> str:
    """Return the name of a session, an argument of a command."""
    if not text or not text.isprintable():
        raise argparse.ArgumentTypeError("a session has a name, of printable characters")
    return text


@contextmanager
def needing(told: str, extra: str) -> Generator[None]:
    """Say how to install an extra if an import within the block finds it missing.

    Args:
        told: What needs the extra; `{name}` stands for the module that is missing.
        extra: The extra.

    Raises:
        ConfigurationError: The extra is not installed.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("toolstile"):
            raise
        from toolstile_hookspecs import ConfigurationError
        from toolstile_hookspecs.support.text import extra_remedy

        why = told.format(name=error.name)
        raise ConfigurationError(f"{why} {extra_remedy(extra)}.") from error


ENDLESS: Final = 100_000
"""Columns where nobody counts them."""
_WIDTH: Final = re.compile("0*[1-9][0-9]{0,8}")


def printable_lines(text: str) -> list[str]:
    """Return the lines of a text, each printable; only a newline ends one."""
    from toolstile_hookspecs.support.text import printable

    return [printable(line.expandtabs(4)) for line in text.rstrip("\n").split("\n")]


def environment() -> Mapping[str, str]:
    """Return the variables that rich may go by: without a `COLUMNS` that is not positive.

    Rich takes even 0 for a width, and then shows nothing at all.
    """
    if _WIDTH.fullmatch(os.environ.get("COLUMNS", "")):
        return os.environ
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def console(file: TextIO | None = None) -> Console:
    """Return a console, by default on standard output, for text in which nothing is markup."""
    from rich.console import Console  # most commands into a pipe draw nothing

    class Shown(Console):
        def on_broken_pipe(self) -> None:
            """Leave the handling to the command line."""
            raise BrokenPipeError

    made = Shown(
        file=file or sys.stdout,
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


def show_rows(
    titles: Sequence[str], rows: Iterable[Sequence[str | Text]], wrapped: str = ""
) -> None:
    """Show rows under titles; a long text is wrapped in one column alone."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        table.add_column(title, no_wrap=title != wrapped, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    print_table(table)


def show_line(text: str) -> None:
    """Show a line, whatever its length."""
    from rich.text import Text

    console().print(Text(text), soft_wrap=True)


def tell(args: argparse.Namespace, text: str, wire: Mapping[str, Any]) -> None:
    """Write JSON data if a command prints JSON, else show a text."""
    if args.out is not None:
        args.out.write(wire)
    else:
        show_line(text)


def described_category(tool: Tool[Any, Any]) -> str:
    """Return the category of a tool as a question names it.

    A foreign tool is one of deletion where its server calls it destructive: it may just overwrite.
    """
    if tool.category == "delete" and tool.origin is not None:
        return "destructive"
    return tool.category.replace("_", " ")
