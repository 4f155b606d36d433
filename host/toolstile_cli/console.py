"""Standard output: JSON Lines, and text and tables for people."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Final, Literal, TextIO

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from toolstile.plugins.registry import PluginApprover
from toolstile_hookspecs import Approver, TurnApprover
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.screen import console

# --- JSON Lines


class JsonLines:
    """Writes values to a stream, one a line, each at once.

    Everything beyond ASCII is escaped, so that no encoding and no terminal is hurt by it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, value: Any) -> None:
        """Write one value."""
        self._stream.write(json.dumps(value) + "\n")
        self._stream.flush()


@contextlib.contextmanager
def json_lines() -> Generator[JsonLines]:
    """Take stdout for JSON Lines; all other output meanwhile goes to stderr.

    That holds for `print` in a handler and, where stdout is the process's own, also for
    C libraries and for programs that a handler starts.
    """
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(_own_stdout())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield JsonLines(ours)


@contextlib.contextmanager
def _own_stdout() -> Generator[TextIO]:
    try:
        number, diverted = sys.stdout.fileno(), sys.stderr.fileno()
    except (OSError, AttributeError, io.UnsupportedOperation):
        yield sys.stdout
        return
    sys.stdout.flush()
    kept = os.dup(number)
    os.dup2(diverted, number)
    try:
        with open(kept, "w", encoding="utf-8", newline="\n", closefd=False) as stream:
            yield stream
    finally:
        os.dup2(kept, number)
        os.close(kept)


# --- Text


_FORCING: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Variables that make rich treat any stream as a terminal."""


class Terminal:
    """The place where commands show foreign text: plain in a pipe, with styles on a terminal.

    In a pipe `console` is None, so that nothing heavy is imported.
    """

    def __init__(self) -> None:
        self._out = sys.stdout
        self.console = console() if self._out.isatty() or _FORCING & os.environ.keys() else None

    @property
    def is_terminal(self) -> bool:
        """True when a person looks at it."""
        return self.console is not None and self.console.is_terminal

    @property
    def can_move(self) -> bool:
        """True if shown lines can be replaced, which needs a terminal with colours."""
        return self.is_terminal and not os.environ.get("NO_COLOR")

    @property
    def room(self) -> int | None:
        """The width in columns; None in a pipe."""
        return self.console.width if self.console is not None and self.is_terminal else None

    def sign(self, symbol: str, plain: str, text: str, style: str) -> Text:
        """Return a sign and a text; the plain sign where only ASCII can be written."""
        has_symbols = (self._out.encoding or "").lower().startswith("utf")
        return Text(f"{symbol if has_symbols else plain} {text}", style)

    def print(self, text: Text | str = "", *, whole: bool = False) -> None:
        """Write a line, without markup; `whole` lets the terminal break a long one."""
        line = Text(text) if isinstance(text, str) else text
        line.rstrip()
        if self.console is None:
            self._out.write(f"{line.plain}\n")
            # The reader of a pipe sees each line as it comes.
            self._out.flush()
        else:
            self.console.print(line, soft_wrap=whole or not self.is_terminal)


# --- Tables


MARGIN: Final = 1
GAP: Final = 2
NARROW: Final = 40
"""Columns that a text needs beside its row; with fewer it stands below."""
ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of fixed width."""

    title: str
    width: int  # its columns on the screen, more if the heading needs them
    justify: Literal["left", "right"] = "left"  # the side at which its cells stand
    keep: Literal["start", "end"] = "start"  # the end of a cell that is kept when it is too long


class Table:
    """A table that is written row by row: fixed columns, and a text, headed `text`, in the rest.

    Rich draws a table once all its rows are known; these rows come one by one. Where the rest is
    too narrow, the text stands below its row. In a pipe nothing is cut.
    """

    def __init__(self, terminal: Terminal, columns: Sequence[Column], text: str) -> None:
        self._terminal = terminal
        self._columns = columns
        self._text = text
        room = terminal.room
        self._spaces = [max(column.width, cell_len(column.title)) for column in columns]
        self._indent = MARGIN + sum(self._spaces) + GAP * len(columns)
        self._stacked = room is not None and room - self._indent - MARGIN < NARROW
        if self._stacked:
            self._indent = MARGIN + GAP
        self._room = None if room is None else max(room - self._indent - MARGIN, 10)

    def head(self) -> None:
        """Write the headings."""
        titles = [Text(column.title, "bold") for column in self._columns]
        self.row(titles, [] if self._stacked else [Text(self._text, "bold")])

    def row(self, cells: Sequence[Text], texts: Sequence[Text]) -> None:
        """Write a row's cells and its texts, one below the other; a long text continues below."""
        line = Text(" " * MARGIN)
        for column, space, cell in zip(self._columns, self._spaces, cells, strict=True):
            line.append_text(self._fit_cell(column, space, cell)).append(" " * GAP)
        lines = [line for text in texts for line in self._wrapped(text, self._room)]
        if self._stacked or not lines:
            self._terminal.print(line, whole=True)
        for text in lines:
            if self._stacked or text is not lines[0]:
                line = Text(" " * self._indent)
            self._terminal.print(line.append_text(text), whole=True)

    def below(self, text: Text) -> None:
        """Write a text below the table, as wide as the terminal."""
        room = self._terminal.room
        for line in self._wrapped(text, None if room is None else max(room - MARGIN, 10)):
            self._terminal.print(Text(" " * MARGIN).append_text(line), whole=True)

    def _fit_cell(self, column: Column, space: int, cell: Text) -> Text:
        if self._room is None:
            space = max(space, cell.cell_len)
        elif cell.cell_len > space and column.keep == "end":
            end = set_cell_size(cell.plain[::-1], space - 1)[::-1].lstrip()
            cell = Text(f"{ELLIPSIS}{end}", cell.style)
        cell.truncate(space, overflow="ellipsis")
        cell.align(column.justify, space)
        return cell

    def _wrapped(self, text: Text, columns: int | None) -> Sequence[Text]:
        console = self._terminal.console
        return [text] if console is None or columns is None else [*text.wrap(console, columns)]


def widest(texts: Sequence[str], limit: int) -> int:
    """Return the columns that the widest of the texts takes, at most `limit`."""
    return min(limit, max(map(cell_len, texts), default=0))


# --- Printable text


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


# --- Stillness during a question


def undisturbed(
    approver: Approver | None, still: Callable[[], AbstractContextManager[None]]
) -> Approver | None:
    """Return an approver that answers as the given one, between entering and leaving `still`."""
    if approver is None:
        return None

    def stilled(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def asked(request: Any) -> Any:
            with ExitStack() as stack:
                stack.enter_context(still())
                answer = ask(request)
                if not inspect.isawaitable(answer):
                    return answer
                return _awaited(answer, stack.pop_all())

        return asked

    if isinstance(approver, TurnApprover):
        single: Any = approver
        return PluginApprover(stilled(single), stilled(approver.turn))
    return stilled(approver)


async def _awaited(answer: Awaitable[Any], stack: ExitStack) -> Any:
    with stack:
        return await answer
