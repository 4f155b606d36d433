"""No page of the documentation is too long for its job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

MOST = {"how-to": 900, "concepts": 1500}
"""The most words of a page outside of its code blocks, by its folder."""

PAGES = [page for folder in MOST for page in sorted((DOCS / folder).glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short(page: Path) -> None:
    # Comments hold the code that readers do not see, and notes for its runner.
    text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
    assert len(text.split()) <= MOST[page.parent.name]
