"""A table that is written row by row: fixed columns, and a text that fills the rest.

Where the rest is too narrow, the text stands below its row; where even the columns are too wide,
the widest give way. In a pipe nothing is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.cells import cell_len

from toolstile_cli.display.console import Terminal
from toolstile_cli.display.styled import Styled

MARGIN: Final = 1
GAP: Final = 2
NARROW: Final = 40
"""Columns that a text needs beside its row; with fewer it stands below."""
LEAST: Final = 3
"""To how little a column shrinks: two characters, and the ellipsis."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of fixed width.

    Args:
        title: Its heading.
        width: Its columns on the screen, more if the heading needs them.
        justify: Where its cells stand.
        keep: Which end of a cell is kept when it is too long.
    """

    title: str
    width: int
    justify: Literal["left", "right"] = "left"
    keep: Literal["start", "end"] = "start"

    @property
    def space(self) -> int:
        """The columns it takes."""
        return max(self.width, cell_len(self.title))

    @property
    def shrinks(self) -> bool:
        """True when less of it still tells something; half a number would tell something else."""
        return self.justify == "left"


class Table:
    """Writes rows as they come.

    Args:
        terminal: Where to.
        columns: The columns of fixed width.
        text: The heading of the text that fills the rest.
    """

    def __init__(self, terminal: Terminal, columns: Sequence[Column], text: str) -> None:
        self._terminal = terminal
        self._columns = columns
        self._text = text
        taken = MARGIN + sum(column.space + GAP for column in columns)
        room = terminal.room
        self._stacked = room is not None and room - taken - MARGIN < NARROW
        self._indent = taken
        self._spaces = [column.space for column in columns]
        if room is not None and self._stacked:
            self._spaces = _shrunk(columns, room)
            # Below the second column, unless that leaves too little of the line.
            second = MARGIN + self._spaces[0] + GAP
            self._indent = min(second, max(room - NARROW, MARGIN + GAP))
        self._room = None if room is None else max(room - self._indent - MARGIN, 10)

    def head(self) -> None:
        """Write the headings."""
        line = self._line([Styled(column.title, "bold") for column in self._columns])
        if not self._stacked:
            self._put_beside(line, Styled(self._text, "bold"))
        self._write(line)

    def row(self, cells: Sequence[Styled], texts: Sequence[Styled], *, wrap: bool = False) -> None:
        """Write a row and its texts, one below the other.

        Args:
            cells: One for each column.
            texts: What fills the rest.
            wrap: Whether texts that are too long go on in a new line, or are cut.
        """
        lines = [line for text in texts for line in self._fit(text, wrap=wrap)]
        line = self._line(cells)
        if lines and not self._stacked:
            self._put_beside(line, lines.pop(0))
        self._write(line)
        for each in lines:
            self._write(Styled(" " * self._indent).extend(each))

    def below(self, text: Styled) -> None:
        """Write a text below the table, as wide as the terminal."""
        room = self._terminal.room
        lines = [text] if room is None else self._wrapped(text, max(room - MARGIN, 10))
        for line in lines:
            self._write(Styled(" " * MARGIN).extend(line))

    def _line(self, cells: Sequence[Styled]) -> Styled:
        line = Styled(" " * MARGIN)
        for column, space, cell in zip(self._columns, self._spaces, cells, strict=True):
            shown = cell
            if self._room is not None:
                shown = cell.cut(space, keep_end=column.keep == "end")
            fill = " " * (space - shown.columns)
            if column.justify == "right":
                line.append(fill).extend(shown)
            else:
                line.extend(shown).append(fill)
            line.append(" " * GAP)
        return line

    def _put_beside(self, line: Styled, text: Styled) -> None:
        line.append(" " * (self._indent - line.columns)).extend(text)

    def _fit(self, text: Styled, *, wrap: bool) -> list[Styled]:
        if self._room is None or text.columns <= self._room:
            return [text]
        return self._wrapped(text, self._room) if wrap else [text.cut(self._room)]

    def _wrapped(self, text: Styled, columns: int) -> list[Styled]:
        console = self._terminal.console
        return [text] if console is None else text.wrapped(console, columns)

    def _write(self, line: Styled) -> None:
        self._terminal.print(line, whole=True)


def _shrunk(columns: Sequence[Column], room: int) -> list[int]:
    """Return the columns' widths, made as small as it takes for a row to fit into the room."""
    spaces = [column.space for column in columns]
    for _ in range(MARGIN + sum(spaces) + GAP * (len(spaces) - 1) - room):
        shrinking = [
            index
            for index, column in enumerate(columns)
            if column.shrinks and spaces[index] > LEAST
        ]
        if not shrinking:
            break
        spaces[max(shrinking, key=spaces.__getitem__)] -= 1
    return spaces


def widest(texts: Sequence[str], limit: int) -> int:
    """Return the columns that the widest of the texts takes, at most `limit`."""
    return min(limit, max(map(cell_len, texts), default=0))
