"""A person checks the tables in PostgreSQL, and upgrades them, at the terminal."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from tests.plugins.pseudo_terminal import at_stderr

from toolstile_cli.main import main
from toolstile_hookspecs.testing.ledger import NOW, claim_of
from toolstile_plugins.ledger.stores.postgres import PostgresStore

from .conftest import do

pytestmark = pytest.mark.slow


@pytest.fixture
def toolstile(url, tmp_path, monkeypatch, capsys):
    """Runs a command over the configured database; returns its status and what it said."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "toolstile.toml"

    def run(*arguments, url=url):
        database = "" if url is None else f'[plugins.database]\nurl = "{url}"\n'
        file.write_text(database or "[plugins.database]\nmemory = true\n")
        capsys.readouterr()
        status = main([*arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return run


def test_tables_are_made_and_then_found(toolstile, monkeypatch):
    status, out, _ = toolstile("database", "check")
    assert (status, "There are no tables for sessions yet." in out) == (1, True)
    status, out, _ = toolstile("doctor")
    assert (status, "There are no tables for sessions yet." in out) == (1, True)
    with at_stderr(monkeypatch) as written:
        assert "sessions is now of version 2." in toolstile("database", "upgrade")[1]
        assert "Upgrade" in written()
    assert "sessions was of version 2." in toolstile("database", "upgrade")[1]
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
        assert "are of version 9, and this Toolstile knows 2." in out + err
    _, out, _ = toolstile("doctor", "--json")
    found = {each["subject"]: each for each in map(json.loads, out.splitlines())}
    assert found["database"]["severity"] == "ok"
    assert found["database sessions"]["severity"] == "error"


@pytest.fixture
def findings(toolstile):
    """Runs `toolstile doctor`; returns its findings by subject."""

    def run(url):
        _, out, _ = toolstile("doctor", "--json", url=url)
        return {finding["subject"]: finding for finding in map(json.loads, out.splitlines())}

    return run


@pytest.mark.parametrize("table", ["toolstile_counts", "toolstile_schema"])
def test_who_lacks_rights_is_told_what_to_have_granted(toolstile, findings, url, ordinary, table):
    toolstile("database", "upgrade")
    ((user,),) = do(ordinary, "SELECT current_user")
    assert toolstile("database", "check", url=ordinary)[0] == 0
    do(url, f"REVOKE UPDATE, SELECT ON {table} FROM {user}")
    status, out, _ = toolstile("database", "check", "--json", url=ordinary)
    line = next(line for line in map(json.loads, out.splitlines()) if line["part"] == "counts")
    assert (status, line["ok"]) == (1, False)
    assert f"User {user} lacks SELECT" in line["text"]
    assert f"on {table}. Have the owner" in line["text"]
    finding = findings(ordinary)["database counts"]
    assert finding["severity"] == "error"
    do(url, finding["remedy"].partition(" run: ")[2])
    assert toolstile("database", "check", url=ordinary)[0] == 0
    assert findings(ordinary)["database counts"]["severity"] == "ok"


def test_who_may_make_no_tables_is_told_who_has_to(toolstile, findings, url, ordinary, user):
    told = f"There are no tables for counts yet, and user {user} may make none."
    status, out, _ = toolstile("database", "check", url=ordinary)
    assert (status, told in out) == (1, True)
    finding = findings(ordinary)["database counts"]
    assert (finding["severity"], finding["text"]) == ("error", told)
    assert "Have an administrator run `toolstile database upgrade`" in finding["remedy"]
    status, _, err = toolstile("database", "upgrade", url=ordinary)
    assert status != 0
    assert finding["remedy"] in err
    assert findings(url)["database counts"]["text"] == "There are no tables for counts yet."


def test_overdue_effects_are_counted(toolstile, url):
    toolstile("database", "upgrade")
    overdue = "Unknown effects that a person must resolve: 1; the first is overdue since"
    assert overdue not in toolstile("doctor", "--json")[1]
    with closing(PostgresStore(url)) as store:
        store.claim(claim := claim_of(), now=NOW)
        assert store.mark_unknown(claim.key, claim.effect_id, "It was killed.")
    assert overdue in toolstile("doctor", "--json")[1]
    assert toolstile("doctor", "--json", "--block=ledger")[0] == 0


def test_without_a_database_the_setting_is_named(toolstile):
    status, _, err = toolstile("database", "check", url=None)
    assert status == 2
    assert "Name one in the configuration, as url in [plugins.database]" in err
