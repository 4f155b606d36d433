"""Standard output, as commands for people write to it."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, Final

from toolstile_cli.display.styled import Styled
from toolstile_hookspecs import ApprovalRequest, Approver
from toolstile_hookspecs.support.terminal import environment
from toolstile_hookspecs.support.text import printable

if TYPE_CHECKING:
    from rich.console import Console


_FORCING: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Variables by which rich takes what is no terminal for one."""


class Terminal:
    """Where commands show text from elsewhere: in a pipe as it is, on a terminal with its styles.

    Attributes:
        console: What knows the terminal; None in a pipe, where nothing heavy is imported.
    """

    def __init__(self) -> None:
        self._out = sys.stdout
        self.console = _console() if self._out.isatty() or _FORCING & os.environ.keys() else None

    @property
    def is_terminal(self) -> bool:
        """True when a person looks at it."""
        return self.console is not None and self.console.is_terminal

    @property
    def room(self) -> int | None:
        """The columns there are; None where nobody counts them, as in a pipe."""
        return self.console.width if self.console is not None and self.is_terminal else None

    @property
    def has_symbols(self) -> bool:
        """True when more than ASCII can be written."""
        return (self._out.encoding or "").lower().startswith("utf")

    def print(self, text: Styled | str = "", *, whole: bool = False) -> None:
        """Write a line.

        Args:
            text: What stands in it; nothing in it is read as markup.
            whole: Whether it is left to the terminal to break it, where it is too long.
        """
        line = Styled(text) if isinstance(text, str) else text
        if self.console is None:
            self._out.write(f"{line.plain.rstrip()}\n")
            # Whoever reads a pipe sees each line as it comes.
            self._out.flush()
            return
        shown = line.as_rich()
        shown.rstrip()
        self.console.print(shown, soft_wrap=whole or not self.is_terminal)


def _console() -> Console:
    from rich.console import Console  # heavy

    class Shown(Console):
        def on_broken_pipe(self) -> None:
            """Leave what to do about it to the command line."""
            raise BrokenPipeError

    return Shown(
        file=sys.stdout,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        _environ=environment(),
    )


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


def listed(names: Sequence[str]) -> str:
    """Return names as a part of a sentence.

    Example:
        >>> listed(("run", "call", "tools"))
        'run, call and tools'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


# --- Stillness during a question


def undisturbed(
    approver: Approver | None, still: Callable[[], AbstractContextManager[None]]
) -> Approver | None:
    """Return an approver that answers as the given one, in stillness.

    Args:
        approver: Who is asked, None for nobody.
        still: Entered before the question, left after the answer.
    """
    if approver is None:
        return None

    def ask(request: ApprovalRequest) -> Any:
        with ExitStack() as stack:
            stack.enter_context(still())
            answer = approver(request)
            if not inspect.isawaitable(answer):
                return answer
            return _awaited(answer, stack.pop_all())

    return ask


async def _awaited(answer: Awaitable[Any], stack: ExitStack) -> Any:
    with stack:
        return await answer
