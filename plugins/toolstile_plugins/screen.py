"""The output of commands for people: consoles, lines, and tables."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.cells import cell_len
from rich.text import Text

from toolstile_hookspecs import Status
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.cli_support import unseen

if TYPE_CHECKING:
    from rich.console import Console

ENDLESS: Final = 100_000
"""The columns of an output that is not a terminal."""
_WIDTH: Final = re.compile("0*[1-9][0-9]{0,8}")
_GAP: Final = 2
_LEAST: Final = 20
"""The least width of a table's last column."""

Cell = str | tuple[str, str]
"""A text in a table, or a text and its style."""


def environment() -> Mapping[str, str]:
    """Return the variables that rich may go by: without a `COLUMNS` that is not positive.

    Rich takes even 0 for a width, and then shows nothing at all.
    """
    if _WIDTH.fullmatch(os.environ.get("COLUMNS", "")):
        return os.environ
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def console(file: TextIO | None = None) -> Console:
    """Return a console, by default on standard output, for plain text without markup."""
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


class Screen:
    """The output of commands for people, with `margin` blanks before each line."""

    def __init__(self, margin: str = " ") -> None:
        self._margin = margin
        self._console = console()
        self._room = self._console.width if self._console.is_terminal else None
        # Wrapped here, because rich would cut every column.
        self._console.width = ENDLESS

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Show a table; on a terminal, a long last column is wrapped."""
        # Not rich's own table, because that takes twenty times as long and eight times the memory.
        titled = [(title, "bold") for title in titles]
        listed = [
            [cell if isinstance(cell, tuple) else (cell, "") for cell in row]
            for row in (titled, *rows)
        ]
        widths = [0] * (len(titles) - 1)
        for row in listed:
            cells = zip(widths, row[:-1], strict=True)
            widths = [max(width, cell_len(text) + _GAP) for width, (text, _) in cells]
        for row in listed:
            for line in self._shown(row, widths):
                self._show(line)

    def line(self, text: str = "", style: str = "") -> None:
        """Show a line, whatever its length."""
        self._show(Text(f"{self._margin}{text}", style))

    def _shown(self, row: Sequence[tuple[str, str]], widths: Sequence[int]) -> Iterator[Text]:
        shown = Text(self._margin)
        for (text, style), width in zip(row[:-1], widths, strict=True):
            shown.append(text, style)
            shown.append(" " * (width - cell_len(text)))
        last, indent = Text(*row[-1]), len(self._margin) + sum(widths)
        lines = last.split()
        if self._room is not None:
            lines = last.wrap(self._console, max(self._room - indent, _LEAST))
        for line in lines:
            yield shown.append_text(line)
            shown = Text(" " * indent)

    def _show(self, text: Text) -> None:
        text.rstrip()
        if self._console.color_system is None:
            sys.stdout.write(f"{text.plain}\n")
            return
        with self._console.capture() as captured:
            self._console.print(text, soft_wrap=True)
        sys.stdout.write(captured.get())


@contextmanager
def progress(doing: str) -> Generator[Callable[[float, float], None]]:
    """Show the share that is done, and an estimate of the rest, until the context ends.

    Both stand on the terminal at standard error; elsewhere nothing is shown. The command calls the
    given function with the amount that is done, and the whole.
    """
    made = console(sys.stderr) if sys.stderr.isatty() else None
    if made is None or made.color_system is None:
        yield unseen
        return
    from rich.progress import Progress  # only a terminal needs it

    made.soft_wrap = True  # of lines that the command shows meanwhile
    both = sys.stdout.isatty()
    with Progress(console=made, transient=True, redirect_stdout=both) as shown:
        task = shown.add_task(doing, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def show_line(text: str) -> None:
    """Show a line, whatever its length."""
    Screen("").line(text)


def printable_lines(text: str) -> list[str]:
    """Return the lines of a text, each printable; only a newline ends one."""
    return [printable(line.expandtabs(4)) for line in text.rstrip("\n").split("\n")]


def tell(args: argparse.Namespace, text: str, wire: Mapping[str, Any]) -> None:
    """Write JSON data if a command prints JSON, else show a text."""
    if args.out is not None:
        args.out.write(wire)
    else:
        show_line(text)


def agrees(question: str) -> bool:
    """Ask a person, and tell whether the answer is yes; False if no terminal can answer."""
    if not sys.stdin.isatty():
        return False
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def shown_time(moment: datetime | None) -> str:
    """Return a time to the second, an empty text for None."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def shown_status(status: Status) -> str:
    """Return the status of a call in words."""
    return status.value.replace("_", " ")


def style_of(status: Status) -> str:
    """Return the style of a status."""
    if status in {Status.DENIED, Status.PENDING, Status.CANCELLED}:
        return "yellow"
    return "green" if status is Status.SUCCEEDED else "red"
