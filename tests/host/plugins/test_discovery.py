"""Plugins are found among the installed distributions."""

import subprocess
import sys

import pytest

from toolstile.plugins import discovery
from toolstile.plugins.reports import PluginSource

RECORDS_IMPORT = """
    import sys
    sys.modules["{flag}"] = sys
"""


def test_a_discovered_plugin_is_reported_with_its_distribution(good, discovered, report_of):
    good("zq-tools")
    report = report_of(discovered(), "zq-tools")
    assert (report.status, report.source, report.location) == ("loaded", "entry point", "zq_tools")
    assert (report.distribution, report.version) == ("zq-tools", "1.0")
    assert report.hooks == ("toolstile_check", "toolstile_sections")
    assert report.tools == ("zq_tools",)
    assert report.summary == "Good tools."


def test_toolstiles_own_plugins_come_first_then_all_by_name(good, discovered):
    for name in ("zq-b", "zq-a", "aa-c"):
        good(name)
    loaded = [each for each in discovered().reports if each.status == "loaded"]
    own = [each.distribution == "toolstile" for each in loaded]
    assert own == sorted(own, reverse=True)
    assert [each.name for each in loaded if each.distribution != "toolstile"] == [
        "aa-c",
        "zq-a",
        "zq-b",
    ]


def test_a_blocked_plugin_is_not_even_imported(install, discovered, report_of):
    install("zq-blocked", RECORDS_IMPORT.format(flag="zq_blocked_was_imported"))
    report = report_of(discovered(block=["zq-blocked"]), "zq-blocked")
    assert report.status == "blocked"
    assert "zq_blocked" not in sys.modules
    report = report_of(discovered({"zq-blocked": {"enabled": False}}), "zq-blocked")
    assert report.status == "blocked"
    assert "zq_blocked_was_imported" not in sys.modules


def test_discovering_again_keeps_what_is_there_and_finds_what_is_new(good, discovered, report_of):
    good("zq-one")
    plugins = discovered()
    tool = plugins.catalog.get("zq_one")
    good("zq-two")
    plugins.discover()
    assert plugins.catalog.get("zq_one") is tool
    assert report_of(plugins, "zq-one").status == "loaded"
    assert report_of(plugins, "zq-two").status == "loaded"


def test_a_name_taken_from_python_is_not_taken_away(good, discovered, report_of):
    plugins = discovered()
    plugins.register(object(), "zq-mine")
    good("zq-mine")
    plugins.discover()
    mine, found = (each for each in plugins.reports if each.name == "zq-mine")
    assert (mine.source, mine.status) == ("python", "loaded")
    assert (found.source, found.status) == ("entry point", "failed")
    assert "taken by plugin 'zq-mine', registered from Python" in found.fault


def test_a_shadowed_distribution_is_not_looked_at(install, tmp_path, monkeypatch):
    install("zq-one", "", version="1.0")
    older = tmp_path / "older" / "ZQ_One-0.1.dist-info"
    older.mkdir(parents=True)
    (older / "METADATA").write_text("Metadata-Version: 2.1\nName: ZQ_One\nVersion: 0.1\n")
    (older / "entry_points.txt").write_text("[toolstile]\nzq-one = zq_older\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "older")])
    found = [each for each in discovery.installed() if each.name == "zq-one"]
    assert [each.version for each in found] == ["1.0"]


def test_an_unreadable_distribution_is_passed_over(install, good, discovered, report_of):
    info = install("zq-damaged", "")
    (info / "entry_points.txt").write_bytes(b"[toolstile]\nx = \xff\xfe\n")
    good("zq-good")
    assert report_of(discovered(), "zq-good").status == "loaded"


@pytest.mark.slow
def test_importlib_metadata_is_imported_when_plugins_are_looked_for_not_before():
    code = "import sys, toolstile.plugins.registry; print('importlib_metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_is_blocked_or_configured_and_not_installed_is_reported(good, discovered, report_of):
    good("zq-tools")
    plugins = discovered({"zq-tool": {"a": 1}, "zq_tools": {}}, block=["zq-other"])
    table = report_of(plugins, "zq-tool")
    assert (table.source, table.status) == ("configuration", "absent")
    assert table.fault == "the configuration has a table for 'zq-tool', which is not installed."
    remedy = 'If it may be absent here, write optional_plugins = ["zq-tool"] at the top.'
    assert table.remedy == f"Did you mean 'zq-tools'? {remedy}"
    assert table.misconfigured
    blocked = report_of(plugins, "zq-other")
    assert (blocked.status, blocked.fault) == (
        "absent",
        "'zq-other' is switched off, but not installed.",
    )
    assert {each.name for each in plugins.reports if each.status == "absent"} == {
        "zq-tool",
        "zq-other",
    }


def test_a_plugin_is_described_with_its_distribution():
    assert PluginSource("a", "python").title == "'a'"
    assert PluginSource("a", "python", "dist").title == "'a' (dist)"
