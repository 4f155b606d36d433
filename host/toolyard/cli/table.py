"""A table that is written row by row: fixed columns, and a text that fills the rest.

Where the rest is too narrow, the text stands below its row. In a pipe nothing is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.cells import cell_len
from rich.text import Text

from toolyard.cli.console import Terminal

MARGIN: Final = 1
GAP: Final = 2
NARROW: Final = 40
"""Columns that a text needs beside its row; with fewer it stands below."""


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
        if room is not None and self._stacked:
            # Below the second column, unless that leaves too little of the line.
            second = MARGIN + columns[0].space + GAP
            self._indent = min(second, max(room - NARROW, MARGIN + GAP))
        self._room = None if room is None else max(room - self._indent - MARGIN, 10)

    def head(self) -> None:
        """Write the headings."""
        cells = [Text(column.title) for column in self._columns]
        line = self._line(cells)
        if not self._stacked:
            line = self._beside(line, Text(self._text))
        line.stylize("bold")
        self._write(line)

    def row(self, cells: Sequence[Text], texts: Sequence[Text], *, wrap: bool = False) -> None:
        """Write a row and its texts, one below the other.

        Args:
            cells: One for each column.
            texts: What fills the rest.
            wrap: Whether texts that are too long go on in a new line, or are cut.
        """
        lines = [line for text in texts for line in self._fit(text, wrap=wrap)]
        line = self._line(cells)
        if lines and not self._stacked:
            line = self._beside(line, lines.pop(0))
        self._write(line)
        for each in lines:
            self._write(Text(" " * self._indent).append_text(each))

    def below(self, text: Text) -> None:
        """Write a text below the table, as wide as the terminal."""
        room = self._terminal.room
        lines = [text] if room is None else text.wrap(self._terminal, max(room - MARGIN, 10))
        for line in lines:
            self._write(Text(" " * MARGIN).append_text(line))

    def _line(self, cells: Sequence[Text]) -> Text:
        line = Text(" " * MARGIN)
        for column, cell in zip(self._columns, cells, strict=True):
            line.append_text(self._cell(column, cell)).append(" " * GAP)
        return line

    def _cell(self, column: Column, cell: Text) -> Text:
        space, cell = column.space, cell.copy()
        if self._terminal.room is not None and cell.cell_len > space:
            cell = self._cut(cell, space, column.keep)
        fill = " " * max(0, space - cell.cell_len)
        return Text(fill).append_text(cell) if column.justify == "right" else cell.append(fill)

    def _cut(self, cell: Text, space: int, keep: str) -> Text:
        if keep == "start":
            cell.truncate(space, overflow="ellipsis")
            return cell
        plain = cell.plain
        while cell_len(plain) > space - 1:
            plain = plain[1:]
        return Text(f"…{plain}", cell.style)

    def _beside(self, line: Text, text: Text) -> Text:
        return line.append(" " * (self._indent - line.cell_len)).append_text(text)

    def _fit(self, text: Text, *, wrap: bool) -> list[Text]:
        if self._room is None or text.cell_len <= self._room:
            return [text]
        if wrap:
            return list(text.wrap(self._terminal, self._room))
        text = text.copy()
        text.truncate(self._room, overflow="ellipsis")
        return [text]

    def _write(self, line: Text) -> None:
        line.rstrip()
        self._terminal.print(line, no_wrap=True, overflow="ignore", crop=False)


def widest(texts: Sequence[str], limit: int) -> int:
    """Return the columns that the widest of the texts takes, at most `limit`."""
    return min(limit, max(map(cell_len, texts), default=0))
