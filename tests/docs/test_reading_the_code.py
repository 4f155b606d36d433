"""The page for readers of the code names files that exist, and counts that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

# The source is the same on every Python: once is enough.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/concepts/growth.md").read_text(encoding="utf-8")
TOLERANCE = 0.05


def test_the_counts_of_the_three_packages_hold() -> None:
    rows = re.findall(r"^\| `(\w+)/.*\| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
    assert [folder for folder, _, _ in rows] == ["hookspecs", "host", "plugins"]
    for folder, files, lines in rows:
        paths = list((ROOT / folder).rglob("*.py"))
        found = sum(path.read_text(encoding="utf-8").count("\n") for path in paths)
        for shown, real in ((files, len(paths)), (lines, found)):
            assert abs(int(shown.replace(",", "")) - real) <= TOLERANCE * real, (folder, real)


def test_every_file_and_folder_that_the_page_names_exists() -> None:
    named = re.findall(r"`((?:hookspecs|host|plugins)/[\w./]*)`", PAGE)
    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []
