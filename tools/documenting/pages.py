"""A page of the reference while it is written, and the faults found on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

_WRITTEN = "<!-- Written by `python tools/write_reference.py`: fix the code, then run that. -->"


@dataclass
class Page:
    """Markdown that grows part by part.

    Args:
        title: The page's heading.
        parts: What is on it so far.
        undocumented: What the page should say but the code does not.
    """

    title: str
    parts: list[str] = field(default_factory=list)
    undocumented: list[str] = field(default_factory=list)

    def add(self, *parts: str) -> None:
        """Append paragraphs, lists or blocks; empty ones are left out."""
        self.parts += [part.strip("\n") for part in parts if part.strip()]

    def heading(self, level: int, text: str) -> None:
        """Append a heading."""
        self.add(f"{'#' * level} {text}")

    def block(self, language: str, text: str) -> None:
        """Append a fenced block."""
        self.add(f"```{language}\n{text.strip(chr(10))}\n```")

    def table(self, head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        """Append a table, if it has a row."""
        lines = [f"| {' | '.join(cell(each) for each in row)} |" for row in rows]
        if lines:
            head = list(head)
            top = [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |"]
            self.add("\n".join([*top, *lines]))

    def says(self, name: str, text: str | None) -> str:
        """Return the documentation of something; note that there is none where it is missing."""
        if not (text or "").strip():
            self.undocumented.append(name)
        return (text or "").strip()

    @property
    def text(self) -> str:
        """The page as it is written to its file."""
        return "\n\n".join([f"# {self.title}", _WRITTEN, *self.parts]) + "\n"


def cell(text: str) -> str:
    """Return text as it can stand in the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
