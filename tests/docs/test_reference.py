"""The reference says what the code does, and the code says what everything is."""

from __future__ import annotations

import argparse
import re
from inspect import ismodule
from pathlib import Path

import griffe
import pytest
from documenting import commands_page, names_page, settings_page
from documenting.built_in import built_in
from documenting.pages import Page
from documenting.reference import PAGES
from pydantic import BaseModel

import toolstile_hookspecs
from toolstile_hookspecs import hooks
from toolstile_hookspecs.services import ledger

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


def test_all_of_the_contract_is_there(written):
    public = {name for name, value in vars(toolstile_hookspecs).items() if not ismodule(value)}
    for name in (*public, *ledger.__all__):
        assert name.startswith("__") or f"### {name}\n" in written["contract.md"].text, name


def test_no_sentence_lost_its_beginning(written):
    for name, page in written.items():
        assert not re.findall(r"^\*\*Returns\*\* [a-z].*", page.text, re.MULTILINE), name


def test_every_built_in_plugin_that_can_be_configured_is_there(written):
    tables = {
        point.name for point in built_in() if getattr(point.load(), "toolstile_settings", None)
    }
    assert tables == {
        name for name in tables if f"### `[plugins.{name}]`" in written["settings.md"].text
    }
    assert tables >= {"ledger", "mcp", "vfs"}


class Bare(BaseModel):
    """A table.

    Args:
        said: What it is.
    """

    said: int = 1
    unsaid: int = 2


def test_a_setting_without_documentation_is_found():
    page = Page("Settings")
    settings_page._add_model(page, "plugins.bare", Bare.model_json_schema(), Bare)
    assert page.undocumented == ["plugins.bare.unsaid"]


def test_a_name_and_a_member_without_documentation_are_found():
    code = 'class A:\n    """An A."""\n    def b(self): ...\ndef c(): ...\n'
    module = griffe.visit("bare", filepath=Path("bare.py"), code=code)
    page = Page("Names")
    for thing in module.members.values():
        names_page._add_name(page, thing)
    assert page.undocumented == ["A.b", "c"]


def test_a_command_and_an_option_without_documentation_are_found():
    parser = argparse.ArgumentParser(prog="bare")
    inner = parser.add_subparsers().add_parser("go", help="")
    inner.add_argument("--far")
    inner.add_argument("where", help="the place")
    page = Page("Commands")
    commands_page._add_command(page, "bare", parser, "Do it.", set())
    assert page.undocumented == ["bare go", "bare go --far"]


def test_every_hook_of_the_contract_is_on_the_page(written):
    named = {name for name in vars(hooks) if name.startswith("toolstile_")}
    assert named
    assert all(f"\n### {name}\n" in written["hooks.md"].text for name in named)
