"""A person checks the tables in PostgreSQL, and upgrades them, at the terminal."""

from __future__ import annotations

import json

import pytest

from toolstile_cli.main import main

from .conftest import do

pytestmark = pytest.mark.slow


@pytest.fixture
def toolstile(url, tmp_path, monkeypatch, capsys):
    """Runs a command over the configured database; returns its status and what it said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolstile.toml").write_text(
        f'[plugins.database]\nurl = "{url}"\n[plugins.ledger]\nstore = "memory"\n'
    )

    def run(*arguments):
        capsys.readouterr()
        status = main([*arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_tables_are_made_and_then_found(toolstile):
    status, out, _ = toolstile("database", "check")
    assert (status, "There are no tables for sessions yet." in out) == (1, True)
    assert "sessions is now of version 1." in toolstile("database", "upgrade")[1]
    assert "sessions was of version 1." in toolstile("database", "upgrade")[1]
    status, out, _ = toolstile("database", "check", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert (status, found[0]["part"], found[0]["ok"]) == (0, "sessions", True)


def test_what_an_upgrade_would_run_can_be_run_by_somebody_else(toolstile, url):
    _, script, _ = toolstile("database", "upgrade", "--sql")
    do(url, script)
    assert toolstile("database", "check")[0] == 0
    assert toolstile("database", "upgrade", "--sql")[1] == "BEGIN;\nCOMMIT;\n"


def test_a_newer_version_is_left_alone(toolstile, url):
    toolstile("database", "upgrade")
    do(url, "UPDATE toolstile_schema SET version = 9 WHERE part = 'sessions'")
    for command in ("check", "upgrade"):
        status, out, err = toolstile("database", command)
        assert status != 0
        assert "are of version 9, and this Toolstile knows 1." in out + err
    _, out, _ = toolstile("doctor", "--json")
    found = {each["subject"]: each for each in map(json.loads, out.splitlines())}
    assert found["database"]["severity"] == "ok"
    assert found["database sessions"]["severity"] == "error"


def test_without_a_database_the_setting_is_named(toolstile, tmp_path):
    (tmp_path / "toolstile.toml").write_text("")
    status, _, err = toolstile("database", "check")
    assert status == 2
    assert "Name one in the configuration, as url in [plugins.database]" in err
