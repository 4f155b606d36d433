"""Texts of servers, made fit to be read on one line or several."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

CUT: Final = "..."
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|[\x1b\x9d]\]?[^\x07\x1b\x9c]{0,1000}(?:\x07|\x1b\\|\x9c)"  # titles, links
)
_KEPT: Final = frozenset("\n\t")
# What cannot be seen, or changes how what is near it is read.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def cleaned(text: str) -> str:
    r"""Return a text without terminal escapes, control and invisible characters.

    Example:
        >>> cleaned("a\x1b[31mred\x1b[0m \u202etxt.exe")
        'ared txt.exe'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "".join(each for each in text if each in _KEPT or not _is_unseen(each))


def one_line(text: str, limit: int = 200) -> str:
    """Return a text on one line, cut where it is longer than the limit."""
    line = " ".join(cleaned(text).split())
    return line if len(line) <= limit else f"{line[: limit - len(CUT)].rstrip()}{CUT}"


def is_plain(name: str) -> bool:
    """Tell whether a name holds nothing that cannot be seen."""
    return not any(_is_unseen(each) for each in name)


def amount(size: int) -> str:
    """Return a number of bytes as people read it."""
    for unit, step in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if size >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size} bytes"


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN
