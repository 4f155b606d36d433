"""The reference says what the code does, and the code says what everything is."""

from __future__ import annotations

import pytest
from documenting.built_in import built_in
from documenting.pages import Page
from documenting.reference import PAGES

pytestmark = pytest.mark.docs

NAMES = {file.name: file for file in PAGES}


@pytest.fixture(scope="module")
def written() -> dict[str, Page]:
    return {name: PAGES[file]() for name, file in NAMES.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_as_the_code_makes_it(written, name):
    assert NAMES[name].read_text(encoding="utf-8") == written[name].text, (
        "stale; run: python tools/write_reference.py"
    )


@pytest.mark.parametrize("name", NAMES)
def test_everything_on_the_page_is_documented(written, name):
    assert not written[name].undocumented


def test_every_built_in_plugin_that_can_be_configured_is_there(written):
    tables = {
        point.name for point in built_in() if getattr(point.load(), "toolyard_settings", None)
    }
    assert tables == {
        name for name in tables if f"### `[plugins.{name}]`" in written["settings.md"].text
    }
    assert tables >= {"ledger", "mcp", "vfs"}
