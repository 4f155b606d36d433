"""The drawings of the concepts are as the tool makes them, and stand on their pages."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import drawings
import pytest

SVG = "{http://www.w3.org/2000/svg}"
LETTER = 8
"""Pixels: the least width of a letter for which the boxes have room."""


@pytest.mark.parametrize("name", drawings.DRAWINGS)
def test_the_file_is_as_the_tool_makes_it(name: str) -> None:
    written = (drawings.CONCEPTS / f"{name}.svg").read_text(encoding="utf-8")
    assert written == drawings.DRAWINGS[name]().svg(), "stale; run: python tools/drawings.py"


@pytest.mark.parametrize("page", sorted(drawings.CONCEPTS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_shows_its_drawing(page: Path) -> None:
    assert f"]({page.stem}.svg)" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", drawings.DRAWINGS)
def test_a_drawing_says_itself_in_words_and_cuts_no_text(name: str) -> None:
    root = ET.fromstring(drawings.DRAWINGS[name]().svg())
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert title.text
    assert description is not None
    assert description.text
    for each in root.iter(f"{SVG}text"):
        x, half = float(each.get("x", "0")), LETTER * len(each.text or "") / 2
        left, right = (x, x + 2 * half) if each.get("class") == "left" else (x - half, x + half)
        assert 0 <= left <= right <= drawings.WIDTH, each.text
