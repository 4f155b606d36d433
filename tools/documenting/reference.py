"""All pages of the reference that are written from the code, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from documenting.commands_page import commands_page
from documenting.errors_page import errors_page
from documenting.hooks_page import hooks_page
from documenting.metrics_page import metrics_page
from documenting.names_page import names_page
from documenting.pages import ROOT, Page
from documenting.settings_page import settings_page

REFERENCE = ROOT / "docs" / "reference"

_CONTRACT = """\
Every public name of `toolstile_hookspecs`, which is all that a plugin imports of Toolstile, and at
the end those of `toolstile_hookspecs.services.ledger`, which is for
[stores](../how-to/ledger.md#choose-a-store). The [hooks](hooks.md) have a page of their own."""

_HOST = """\
What an application needs beside [the contract](contract.md), whose names can be imported from
`toolstile`, too."""

_TESTING = """\
What tests of plugins are written with: fixtures that pytest finds by itself, assertions, and suites
that the author of a plugin subclasses. They need pytest.
[The guide](../how-to/testing.md) begins with a test."""

PAGES: dict[Path, Callable[[], Page]] = {
    REFERENCE / "hooks.md": hooks_page,
    REFERENCE / "settings.md": settings_page,
    REFERENCE / "commands.md": commands_page,
    REFERENCE / "errors.md": errors_page,
    REFERENCE / "metrics.md": metrics_page,
    REFERENCE / "contract.md": partial(
        names_page,
        "The contract",
        _CONTRACT,
        ["toolstile_hookspecs", "toolstile_hookspecs.services.ledger"],
    ),
    REFERENCE / "host.md": partial(names_page, "The host", _HOST, ["toolstile"]),
    REFERENCE / "testing.md": partial(
        names_page,
        "Testing",
        _TESTING,
        ["toolstile.testing", "toolstile.testing.fixtures", "toolstile_hookspecs.testing"],
    ),
}
