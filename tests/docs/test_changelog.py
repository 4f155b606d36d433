"""The changelog has one line for each thing that a user notices."""

from __future__ import annotations

import re
from pathlib import Path

LINES = (Path(__file__).parents[2] / "CHANGELOG.md").read_text().splitlines()
START = LINES.index("## [Unreleased]") + 1


def test_each_entry_is_one_line_and_stands_once():
    entries = [line for line in LINES[START:] if line and not line.startswith("#")]
    entries.remove("Nothing has been released yet, so all of it is new.")
    assert [line for line in entries if not line.startswith("- ") or len(line) > 110] == []
    assert sorted(set(entries)) == sorted(entries)


def test_all_is_added_until_the_first_release():
    headings = [line for line in LINES[START:] if re.match(r"##+ ", line)]
    assert headings[0] == "### Added"
    assert {line.split()[0] for line in headings[1:]} == {"####"}
    assert len(set(headings)) == len(headings)
