"""Search by regular expressions, in time that grows with the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from toolstile_hookspecs import FileMatch
from toolstile_hookspecs.support.patterns import NoSearchError, bounded
from toolstile_plugins.vfs.nodes import Content
from toolstile_plugins.vfs.text_files import line_blocks

_MAX_PATTERN_CHARACTERS: Final = 10_000
# What means something else in a block of lines than in one of them.
_BY_LINE_ONLY: Final = re.compile(r"\\[AzQC]|\(\?[a-zA-Z]*-")
MAX_LINE_CHARACTERS: Final = 2_000
"""Of a longer line the beginning is shown, with what is left out said behind it."""


class Search:
    """A compiled expression.

    RE2 looks at each byte once, so no expression can take forever, and lets go of the
    interpreter's lock meanwhile. It knows no look-around and no back-references.

    Raises:
        ValueError: When it is not such an expression.
    """

    __slots__ = ("_pattern", "_prefilter")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MAX_PATTERN_CHARACTERS:
            raise ValueError(
                f"The regular expression has {len(pattern)} characters; "
                f"{_MAX_PATTERN_CHARACTERS} at most."
            )
        self._pattern = _compile(pattern, pattern)
        # One look at a whole block tells that none of its lines can match.
        by_line = _BY_LINE_ONLY.search(pattern) is not None
        self._prefilter = None if by_line else _compile(f"(?m:{pattern})", pattern)

    def lines(self, path: str, content: Content) -> Iterator[FileMatch]:
        """Yield the matching lines of a text file; raises `ValueError` for a line too long."""
        number = 1
        with content.open() as stream:
            for block in line_blocks(stream, path):
                if not self._cannot_match(block):
                    for offset, line in enumerate(block.removesuffix(b"\n").split(b"\n")):
                        text = line.removesuffix(b"\r")
                        if self._pattern.search(text):
                            yield FileMatch(path, number + offset, _shown(text))
                number += block.count(b"\n")

    def _cannot_match(self, block: bytes) -> bool:
        # The end of a line is before its \r, which a look at the block does not know.
        return (
            self._prefilter is not None and b"\r" not in block and not self._prefilter.search(block)
        )


def _compile(pattern: str, shown: str) -> Any:
    try:
        return bounded(pattern.encode())
    except NoSearchError:
        raise
    except ValueError as error:
        raise ValueError(
            f"{shown[:200]!r} is not a regular expression that can be searched for: {error}. "
            "The syntax is RE2's, without look-around and back-references; put a backslash "
            "before characters meant as they are."
        ) from None


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return f"{text[:MAX_LINE_CHARACTERS]}... ({len(text) - MAX_LINE_CHARACTERS} more characters)"
