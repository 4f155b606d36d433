"""The documentation is short: its pages, and each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

MOST_PAGES, MOST_WORDS = 34, 38_000
"""The most pages that people write, and the words in them outside of code blocks."""

WRITTEN = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    # The reference is written by programs, but for the glossary.
    if not {"examples", "reference"} & {*page.parts} or page.stem == "glossary"
]

MOST = {"how-to": 900}
"""The most words of a page, by its folder; 1,500 for others."""
DOORS = dict.fromkeys(("how-to/coding-agents.md", "how-to/mcp.md", "start/coding-agent.md"), 700)
"""The most words of the first page of a coding agent, an MCP client, or `toolstile init`."""


def words_of(page: Path) -> int:
    # Comments hold the code that readers do not see, and notes for its runner.
    text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
    return len(re.findall(r"\S*\w\S*", text))


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_a_page_is_short(page: Path) -> None:
    most = DOORS.get(str(page.relative_to(DOCS)), MOST.get(page.parent.name, 1500))
    assert words_of(page) <= most


def test_all_pages_together_are_short() -> None:
    assert len(WRITTEN) <= MOST_PAGES
    assert sum(map(words_of, WRITTEN)) <= MOST_WORDS
