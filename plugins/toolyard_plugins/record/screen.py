"""Tables and coloured lines on standard output; plain, and nothing cut, where that is a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from rich.table import Table
from rich.text import Text

from toolyard_plugins.consoles import ENDLESS, console

_GAP: Final = 2
_LEAST: Final = 20
"""Columns that are left to the last column of a table on the narrowest terminal."""


class Screen:
    """Where commands show what they have found."""

    def __init__(self) -> None:
        self._console = console()
        self._room = self._console.width if self._console.is_terminal else None
        # Cut here, not by rich, which would cut every column.
        self._console.width = ENDLESS

    def table(self, titles: Iterable[str], rows: Iterable[Iterable[Text]]) -> None:
        """Show a table; on a terminal its last column is cut to fit."""
        heads = [Text(title) for title in titles]
        listed = [list(row) for row in rows]
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
        for head in heads:
            table.add_column(head, no_wrap=True)
        if self._room is not None:
            columns = list(zip(heads, *listed, strict=True))[:-1]
            taken = sum(max(cell.cell_len for cell in each) + _GAP for each in columns)
            for row in listed:
                row[-1].truncate(max(self._room - 1 - taken, _LEAST), overflow="ellipsis")
        for row in listed:
            table.add_row(*row)
        with self._console.capture() as captured:
            self._console.print(table)
        for line in captured.get().splitlines():
            sys.stdout.write(f" {line.rstrip()}\n")

    def line(self, text: str = "", style: str = "") -> None:
        """Show a line, with a margin."""
        with self._console.capture() as captured:
            self._console.print(Text(f" {text}".rstrip(), style), soft_wrap=True)
        sys.stdout.write(captured.get())
