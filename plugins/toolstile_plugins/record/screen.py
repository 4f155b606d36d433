"""Tables and coloured lines on standard output; plain, and nothing cut, where that is a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from toolstile_plugins.consoles import ENDLESS, console

_GAP: Final = 2
_LEAST: Final = 20
"""Columns that are left to the last column of a table on the narrowest terminal."""

Cell = tuple[str, str]
"""A text in a table, and its style."""


class Screen:
    """Where commands show what they have found."""

    def __init__(self) -> None:
        self._console = console()
        self._room = self._console.width if self._console.is_terminal else None
        # Cut here, not by rich, which would cut every column.
        self._console.width = ENDLESS

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Show a table; on a terminal its last column is cut to fit."""
        # Rich's own takes twenty times as long, and eight times the memory.
        listed = [[(title, "bold") for title in titles], *rows]
        widths = [0] * (len(titles) - 1)
        for row in listed:
            cells = zip(widths, row[:-1], strict=True)
            widths = [max(width, cell_len(text) + _GAP) for width, (text, _) in cells]
        for row in listed:
            self._show(self._shown(row, widths))

    def line(self, text: str = "", style: str = "") -> None:
        """Show a line, with a margin."""
        self._show(Text(f" {text}", style))

    def _shown(self, row: Sequence[Cell], widths: Sequence[int]) -> Text:
        shown = Text(" ")
        for (text, style), width in zip(row[:-1], widths, strict=True):
            shown.append(text, style)
            shown.append(" " * (width - cell_len(text)))
        last = Text(*row[-1])
        if self._room is not None:
            last.truncate(max(self._room - 1 - sum(widths), _LEAST), overflow="ellipsis")
        return shown.append_text(last)

    def _show(self, text: Text) -> None:
        text.rstrip()
        if self._console.color_system is None:
            sys.stdout.write(f"{text.plain}\n")
            return
        with self._console.capture() as captured:
            self._console.print(text, soft_wrap=True)
        sys.stdout.write(captured.get())
