"""Tables and samples of the guides say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from toolstile.settings.sources import BLOCK, KEYS
from toolstile.testing import Workbenches, assert_ok
from toolstile_hookspecs.decorator import ToolOptions

DOCS = Path(__file__).parents[2] / "docs"
HOW_TO = DOCS / "how-to"


def test_every_option_in_the_table_of_the_page_is_one_of_a_tool() -> None:
    text = (HOW_TO / "tools.md").read_text("utf-8")
    table = text.partition("\n## Choose options\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert len(named) >= 10
    assert named <= ToolOptions.__annotations__.keys()


def test_a_failed_assertion_looks_as_in_the_guide(toolstile_tools: Workbenches) -> None:
    text = (HOW_TO / "testing.md").read_text("utf-8")
    names: dict[str, Any] = {}
    exec(text.partition("```python\n")[2].partition("```")[0], names)
    shown = text.partition("A failed assertion shows the call")[2].partition("```text\n")[2]

    with pytest.raises(AssertionError) as failed:
        assert_ok(toolstile_tools(names["Room"]()).call("set_temperature", degree=20))

    assert f"{failed.value}\n" == shown.partition("```")[0]


def test_every_variable_of_a_setting_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "settings.md").read_text("utf-8")
    assert [each for each in (BLOCK, *KEYS) if f"`{each}" not in text] == []
