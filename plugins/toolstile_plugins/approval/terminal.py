"""A terminal to ask at: lines out, lines in, and an end when the question is withdrawn."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from toolstile_hookspecs import Cancellation
from toolstile_hookspecs.support.process import renewed_in_forks
from toolstile_plugins.screen import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LOOK_AGAIN: Final = 0.2
"""Seconds between two checks whether a question was withdrawn."""
LONGEST_LINE: Final = 1 << 16
DEVICE: Final = Path("/dev/tty")

# A process has one terminal, so one question is asked at a time.
_turn = renewed_in_forks(__name__, "_turn", threading.Lock)


class Unavailable(Exception):
    """The process has no terminal."""


class Withdrawn(Exception):
    """The question was withdrawn before the answer."""


class Terminal:
    """A terminal.

    Input is read line by line from the descriptor. So an interrupted question leaves the mode of
    the terminal unchanged, and a wait can end early.
    """

    def __init__(self, source: int, out: TextIO, withdrawn: Cancellation) -> None:
        self.source = source
        self._out = out
        self._withdrawn = withdrawn
        self._console: Console | None = None

    def show(self, text: Text | str = "") -> None:
        """Write a line."""
        self._rich().print(text, soft_wrap=True)

    def ask(self, question: str) -> str | None:
        """Return the line that answers a question, or None if the input was closed.

        Earlier input is discarded.

        Raises:
            Withdrawn: The call no longer waits for the answer.
        """
        self._forget_typed()
        self._rich().print(question, style="bold", end=" ", soft_wrap=True)
        self._out.flush()
        line = self._read()
        if line is None:
            self._rich().print()
        return line

    def _read(self) -> str | None:
        while not select.select([self.source], [], [], LOOK_AGAIN)[0]:
            if self._withdrawn.aborted:
                self.show()
                raise Withdrawn
        try:
            data = os.read(self.source, LONGEST_LINE)
        except OSError:
            return None
        return data.decode(errors="replace").rstrip("\r\n") if data else None

    def _forget_typed(self) -> None:
        import termios  # absent on some systems, which have no such terminal

        try:
            termios.tcflush(self.source, termios.TCIFLUSH)
        except termios.error:
            return

    def _rich(self) -> Console:
        if self._console is None:
            self._console = console(self._out)
        return self._console


@contextmanager
def open_terminal(withdrawn: Cancellation, *, anywhere: bool) -> Generator[Terminal]:
    """Open the terminal of this process.

    With `anywhere`, also if standard input and standard error are something else.

    Raises:
        Unavailable: The process has no terminal.
    """
    if os.name != "posix":
        raise Unavailable
    with ExitStack() as stack:
        if _is_terminal(sys.stdin) and _is_terminal(sys.stderr):
            source, out = sys.stdin.fileno(), sys.stderr
        elif anywhere:
            try:
                out = stack.enter_context(DEVICE.open("w", encoding="utf-8"))
                source = os.open(DEVICE, os.O_RDONLY | os.O_NOCTTY)
            except OSError:
                raise Unavailable from None
            stack.callback(os.close, source)
        else:
            raise Unavailable
        yield Terminal(source, out, withdrawn)


@contextmanager
def taking_turns(withdrawn: Cancellation) -> Generator[None]:
    """Wait until no other question is being asked.

    Raises:
        Withdrawn: The call no longer waits for the answer.
    """
    while not _turn.acquire(timeout=LOOK_AGAIN):
        if withdrawn.aborted:
            raise Withdrawn
    try:
        if withdrawn.aborted:
            raise Withdrawn
        yield
    finally:
        _turn.release()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.isatty(stream.fileno())
    except (OSError, ValueError):
        return False
