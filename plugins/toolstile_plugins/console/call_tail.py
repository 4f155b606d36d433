"""The newest calls, followed as records are written, for pages that are open."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from toolstile_plugins.console.call_index import CallIndex, Filter
from toolstile_plugins.console.record_lines import Mark, Row, read_on, rows_of

MOST: Final = 100
"""The newest calls that are held: those of a page."""
_BLOCK: Final = 4 * 1024 * 1024

_beginnings = count(1)


class Tail:
    """The newest calls since it began to follow the records.

    However many come between two looks, it reads as many as a page shows: the others are in the
    index for those who ask. The place after each look has a name, from which a page goes on.

    Args:
        index: The index, which knows how far the records were read.
    """

    def __init__(self, index: CallIndex) -> None:
        self._index = index
        self._marks: dict[Path, Mark] = {}
        self._begun = self._looks = 0
        self._rows: list[tuple[int, Row]] = []
        self._dropped = 0
        """The last look of which not all calls are held."""

    def look(self) -> str:
        """Take in what was written since, and return the name of the place after it."""
        if not self._begun or not self._follow():
            # At first, where a record was replaced, and where more came than is read here.
            self._marks, self._rows = self._index.marks(), []
            self._begun, self._looks, self._dropped = next(_beginnings), 0, 0
        return f"{self._begun}-{self._looks}"

    def since(self, place: str, asked: Filter) -> list[Row] | None:
        """Return the calls that came after a place, the newest first, as many as a page shows.

        None where some of them are not held.
        """
        begun, _, look = place.partition("-")
        if begun != str(self._begun) or not look.isdecimal():
            return None
        held = [row for number, row in reversed(self._rows) if number > int(look)]
        fills_page = len(held) == MOST and asked == Filter()
        is_whole = fills_page or int(look) >= self._dropped
        return [row for row in held if asked.has(row)] if is_whole else None

    def _follow(self) -> bool:
        """Take in what was written to the records; tell whether it can be followed."""
        new: list[Row] = []
        is_whole = True
        for path in self._index.paths():
            mark = self._marks.get(path, Mark())
            # It may have been removed since.
            with suppress(FileNotFoundError):
                written = read_on(path, mark, _BLOCK)
                if written is None or written.mark.end - mark.end >= _BLOCK:
                    return False
                self._marks[path] = written.mark
                new += rows_of(path, written.lines[-MOST:])
                is_whole = is_whole and len(written.lines) <= MOST
        if new:
            self._hold(sorted(new, key=lambda row: row.ended), is_whole=is_whole)
        return True

    def _hold(self, new: list[Row], *, is_whole: bool) -> None:
        self._looks += 1
        rows = [*self._rows, *((self._looks, row) for row in new)]
        self._rows = rows[-MOST:]
        if not is_whole:
            self._dropped = self._looks
        elif len(rows) > MOST:
            self._dropped = max(self._dropped, rows[-MOST - 1][0])
