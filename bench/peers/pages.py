"""The place in a page of the documentation where the tables go."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"


def put_into(page: Path, text: str) -> None:
    """Put the tables between the two markers of a page.

    Raises:
        ValueError: If the page lacks them.
    """
    written = page.read_text(encoding="utf-8")
    before, begin, rest = written.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for the tables; add the lines {BEGIN} and {END}.")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
