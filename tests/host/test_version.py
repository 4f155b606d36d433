"""The names of the host."""

import re
from pathlib import Path

import toolstile

PAGES = Path(__file__).parents[2] / "docs"


def test_every_name_of_the_contract_is_one_of_the_host():
    assert toolstile.CONTRACT_VERSION
    assert all(getattr(toolstile, name) is not None for name in dir(toolstile))


def test_the_names_that_are_shown_are_those_that_users_import():
    imported = re.compile(r"^from toolstile import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
    texts = [page.read_text("utf-8") for page in PAGES.rglob("*.md")]
    used = {
        name
        for text in texts
        for lines in imported.findall(text)
        for name in re.findall(r"\w+", "".join(lines))
    }
    shown = {name for name in dir(toolstile) if not name.startswith("_")}
    assert used - shown == set()
    assert {"CallFailed", "Host", "Settings", "hookimpl", "tool"} <= shown
    assert not {"Any", "TYPE_CHECKING", "annotations", "importlib", "errors"} & shown
    assert len(shown) < 50
