"""The terminal, as rich sees it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Final, NoReturn

from rich.console import Console

_WIDTH: Final = re.compile("0*[1-9][0-9]{0,8}")


class Terminal(Console):
    """A console for text from elsewhere: nothing in it is read as markup or as emoji."""

    def __init__(self) -> None:
        super().__init__(
            file=sys.stdout,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
            highlight=False,
            markup=False,
            emoji=False,
            _environ=_environment(),
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


def _environment() -> Mapping[str, str]:
    """Return the variables that rich may go by: without a `COLUMNS` that is no positive number.

    Rich takes even 0 for a width, and then shows nothing at all.
    """
    if _WIDTH.fullmatch(os.environ.get("COLUMNS", "")):
        return os.environ
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}
