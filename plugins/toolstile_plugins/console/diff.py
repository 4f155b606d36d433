"""Changes of a call as rows, for one column or two.

A part of it is a heading and lines below, indented by two spaces: a unified diff, or a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a diff.

    Args:
        kind: Context, added, removed, or a note about the file.
        text: The text, without the sign in front.
        old: The number of the line before the change.
        new: The number of the line after it.
    """

    kind: Literal["same", "added", "removed", "note"]
    text: str
    old: int | None = None
    new: int | None = None

    @property
    def sign(self) -> str:
        """The sign in front of the line."""
        return {"added": "+", "removed": "-"}.get(self.kind, " ")


def read_diff(text: str) -> Iterator[Line]:
    """Yield the lines of what a call would change; one outside of a hunk is a note."""
    old = new = old_end = new_end = 0
    for indented in text.removesuffix("\n").split("\n"):
        # Blank lines are not indented.
        is_heading = bool(indented) and not indented.startswith(" ")
        line = indented if is_heading else indented[2:]
        sign, rest = line[:1], line[1:]
        if is_heading:
            old_end = new_end = 0
            yield Line("note", line)
        # The numbers of a hunk tell a removed line that begins with `--` from the name of a file.
        elif sign == "-" and old < old_end:
            yield Line("removed", rest, old=old)
            old += 1
        elif sign == "+" and new < new_end:
            yield Line("added", rest, new=new)
            new += 1
        elif sign in {" ", ""} and old < old_end and new < new_end:
            yield Line("same", rest, old, new)
            old, new = old + 1, new + 1
        else:
            if found := _HUNK.match(line):
                old, old_count, new, new_count = (int(number or 1) for number in found.groups())
                old_end, new_end = old + old_count, new + new_count
            yield Line("note", line)


Pair = tuple[Line | None, Line | None]


def pairs_of(lines: list[Line]) -> Iterator[Pair]:
    """Yield the lines side by side: removed ones beside those that stand in their place."""
    removed: list[Line] = []
    added: list[Line] = []
    for line in lines:
        if line.kind == "removed":
            # Lines that are added above belong to another change.
            if added:
                yield from _together(removed, added)
            removed.append(line)
        elif line.kind == "added":
            added.append(line)
        else:
            yield from _together(removed, added)
            yield line, None if line.kind == "note" else line
    yield from _together(removed, added)


def _together(removed: list[Line], added: list[Line]) -> Iterator[Pair]:
    yield from zip_longest([*removed], [*added])
    removed.clear()
    added.clear()
