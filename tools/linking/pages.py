"""The links and anchors of Markdown pages, and whether links within a tree lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

_TAB = re.compile(r'^=== "[^\n]*"\n(?:(?: {4}[^\n]*)?\n)+', re.MULTILINE)
_DROPPED = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Link:
    """A link as it is written.

    Args:
        page: The page it is on.
        line: The line where its paragraph begins.
        target: Where it leads.
    """

    page: Path
    line: int
    target: str

    @property
    def is_external(self) -> bool:
        """True where it leads out of the tree."""
        return bool(urlsplit(self.target).scheme)


def links(page: Path) -> list[Link]:
    """Return the links of a page, also those to its images."""
    found: list[Link] = []
    for block in _parsed(page):
        line = (block.map or [0])[0] + 1
        for token in block.children or ():
            target = token.attrGet("href") or token.attrGet("src")
            if target is not None:
                found.append(Link(page, line, str(target)))
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors that a code host gives the headings of a page."""
    found: set[str] = set()
    for heading in _headings(_parsed(page)):
        anchor = _DROPPED.sub("", heading.lower()).replace(" ", "-")
        number = 0
        while (numbered := f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(numbered)
    return found


def dead(pages: Iterable[Path]) -> list[str]:
    """Return the links between files that lead nowhere, each with its place and why."""
    faults: list[str] = []
    for page in pages:
        for link in links(page):
            why = None if link.is_external else _fault(link)
            if why:
                faults.append(f"{page}:{link.line}: {link.target}: {why}")
    return faults


def external(pages: Iterable[Path]) -> dict[str, Link]:
    """Return the links that lead out of the tree, by address without the anchor."""
    every = (link for page in pages for link in links(page) if link.is_external)
    return {urldefrag(link.target).url: link for link in every}


def _fault(link: Link) -> str | None:
    path, anchor = urldefrag(link.target)
    target = (link.page.parent / unquote(path)).resolve() if path else link.page
    if not target.exists():
        return f"there is no {path}"
    if anchor and target.suffix == ".md" and unquote(anchor) not in anchors(target):
        return f"there is no heading {anchor!r}"
    return None


def _parsed(page: Path) -> list[Token]:
    """Return a page as Markdown; its tabs are read as if they were not indented."""
    text = _TAB.sub(
        lambda tab: re.sub(r"^ {4}", "", tab.group(), flags=re.MULTILINE), page.read_text("utf-8")
    )
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def _headings(tokens: list[Token]) -> Iterator[str]:
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            children = token.children or ()
            yield "".join(
                child.content for child in children if child.type in {"text", "code_inline"}
            )
