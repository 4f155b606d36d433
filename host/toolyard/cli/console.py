"""The terminal, as rich sees it."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from rich.console import Console

from toolyard_hookspecs.widths import environment


class Terminal(Console):
    """A console for text from elsewhere: nothing in it is read as markup or as emoji."""

    def __init__(self) -> None:
        super().__init__(
            file=sys.stdout,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
            _environ=environment(),
        )

    @property
    def room(self) -> int | None:
        """The columns there are; None where nobody counts them, as in a pipe."""
        return self.width if self.is_terminal else None

    @property
    def has_symbols(self) -> bool:
        """Whether more than ASCII can be written."""
        return self.encoding.lower().startswith("utf")

    def on_broken_pipe(self) -> NoReturn:
        """Leave what to do about it to the command line."""
        raise BrokenPipeError
