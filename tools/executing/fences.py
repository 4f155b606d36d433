"""The code blocks of a page, also those in its tabs, which are indented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_INVISIBLE = re.compile(
    r"^(?P<indent> *)<!-- invisible-code: (?P<language>\w+)\n(?P<text>.*?)^(?P=indent)-->$",
    re.MULTILINE | re.DOTALL,
)
_TAB = re.compile(r'^=== "([^"\n]*)"$', re.MULTILINE)


class Fence(NamedTuple):
    """A code block.

    Args:
        start: The place of its first line in the page.
        end: The place after its last line.
        language: The language after the fence, empty if none is named.
        text: The lines within, without the indentation of a tab.
        line: The line of the page that the text begins on, from 0.
        tab: The label of the tab that the block is in; None for a block outside of tabs.
    """

    start: int
    end: int
    language: str
    text: str
    line: int
    tab: str | None


def fences(page: str, *, invisible: bool = False) -> Iterator[Fence]:
    """Yield the code blocks of a page in their order.

    Args:
        page: The text of the page.
        invisible: Whether to yield the blocks in comments, too.
    """
    found = [*_FENCE.finditer(page), *(_INVISIBLE.finditer(page) if invisible else ())]
    for each in sorted(found, key=lambda match: match.start()):
        text = re.sub(f"^{each['indent']}", "", each["text"], flags=re.MULTILINE)
        line = page.count("\n", 0, each.start("text"))
        tabs = _TAB.findall(page, 0, each.start()) if each["indent"] else ()
        tab = tabs[-1] if tabs else None
        yield Fence(each.start(), each.end(), each["language"], text, line, tab)
