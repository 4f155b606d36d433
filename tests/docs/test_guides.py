"""Tables and samples of the guides say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from toolyard_hookspecs.decorator import ToolOptions

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_every_option_of_a_tool_is_in_the_guides_table() -> None:
    text = (GUIDES / "tools.md").read_text("utf-8")
    table = text.partition("\n## Options\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(ToolOptions.__annotations__)
