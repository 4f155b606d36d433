"""Lines on a terminal: changed words are marked, and a long text is shown in a pager."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from toolstile_plugins.approval.display import ADDED, REMOVED, Line

if sys.platform != "win32":
    import termios

if TYPE_CHECKING:
    from rich.console import Console

MARKED: Final = 2_000
"""The most words that are compared, because a comparison of more may be slow."""
MOST: Final = 0.5
"""The largest share of changed words in a line with marks; a line with more is another line."""
LOOK_AGAIN: Final = 0.2
"""Seconds between two checks whether the text is still wanted."""
_WORD: Final = re.compile(r"\w+|\s+|.")


def show_lines(
    console: Console, lines: Sequence[Line], is_over: Callable[[], bool] = lambda: False
) -> None:
    """Write lines, in a pager if they are longer than the terminal, until `is_over` is true."""
    if not (exceeds(console, lines) and _page(console, lines, is_over)):
        print_lines(console, lines)


def print_lines(console: Console, lines: Iterable[Line]) -> None:
    """Write lines with their styles; in lines that replace others, changed words are marked."""
    for text in _marked(lines):
        console.print(text, soft_wrap=True)


def exceeds(console: Console, lines: Iterable[Line]) -> bool:
    """Tell whether lines need more rows than a terminal that can run a pager has."""
    # Rich's own answer may be forced by a variable.
    if not console.file.isatty() or os.environ.get("TERM", "dumb") in {"dumb", "unknown"}:
        return False
    rows = (1 + max(0, cell_len(line) - 1) // console.width for _, line in lines)
    return sum(rows) >= console.height


def _page(console: Console, lines: Iterable[Line], is_over: Callable[[], bool]) -> bool:
    """Show lines in the person's pager; return False if they have not been shown."""
    out = console.file
    with console.capture() as captured:
        print_lines(console, lines)
    # A file, because a pager need not read all of a pipe.
    with tempfile.TemporaryFile() as file:
        file.write(captured.get().encode(console.encoding, "backslashreplace"))
        file.seek(0)
        mode = termios.tcgetattr(out)
        try:
            pager = subprocess.Popen(  # noqa: S603 - as configured by the person
                shlex.split(os.environ.get("PAGER", "less")) or [""],
                stdin=file,
                stdout=out,
                stderr=out,
                env={"LESS": "FRX", "LV": "-c", **os.environ},  # these show colours, as in git
            )
        except (OSError, ValueError):
            return False
        try:
            while not is_over():
                with suppress(subprocess.TimeoutExpired):
                    return pager.wait(LOOK_AGAIN) == 0
            return True
        finally:
            pager.kill()
            pager.wait()
            termios.tcsetattr(out, termios.TCSADRAIN, mode)


# --- Changed words


def _marked(lines: Iterable[Line]) -> Iterator[Text]:
    removed: list[Text] = []
    for style, group in groupby(lines, itemgetter(0)):
        found = [Text(line, style) for _, line in group]
        if style == ADDED:
            _mark(removed, found)
        yield from removed
        removed = found if style == REMOVED else []
        yield from [] if style == REMOVED else found
    yield from removed


def _mark(removed: Sequence[Text], added: Sequence[Text]) -> None:
    sides = [*map(_words, (removed, added))]
    if max(map(len, sides)) > MARKED:
        return
    before, after = ([word for word, *_ in side] for side in sides)
    blocks = SequenceMatcher(None, before, after).get_matching_blocks()
    for number, side in enumerate(sides):
        kept = {at for block in blocks for at in range(block[number], block[number] + block.size)}
        for _, words in groupby(enumerate(side), lambda each: id(each[1][1])):
            found = [*words]
            changed = [word for at, word in found if at not in kept]
            for _, text, start, end in changed if len(changed) <= len(found) * MOST else ():
                text.stylize("reverse", start, end)


def _words(lines: Iterable[Text]) -> list[tuple[str, Text, int, int]]:
    """Return the words behind the signs of lines, and their places."""
    return [
        (word[0], line, *word.span())
        for line in lines
        for word in _WORD.finditer(line.plain, len(line.plain) - len(line.plain.lstrip()) + 1)
    ]
