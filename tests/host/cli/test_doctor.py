"""`toolstile doctor` finds what is wrong, and says how to fix it."""

import json
import re
import sqlite3
import sys
from contextlib import closing

import pytest

from toolstile_hookspecs import DefinitionError, Diagnostic, Severity
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.sandbox import bubblewrap

SAID = "hello\n"
"""The text that a plugin prints while it is imported."""


@pytest.fixture
def doctor(toolstile, folder):
    """Runs it; gives its status and, by subject, what it found."""

    def run(*arguments, config=""):
        (folder / "toolstile.toml").write_text(config)
        status, out, err = toolstile("doctor", "--json", *arguments, plugin=False)
        assert err in {"", SAID}
        found = [json.loads(line) for line in out.splitlines()]
        return status, {each["subject"]: each for each in found}

    return run


def errors(found):
    return [subject for subject, each in found.items() if each["severity"] == "error"]


def test_where_nothing_is_wrong_it_says_so(toolstile, folder):
    before = sorted(folder.iterdir())
    status, out, err = toolstile("doctor", plugin=False)
    assert (status, err) == (0, "")
    assert "\n Nothing is wrong.\n Only plugins that offer tools late" in out
    assert "✓ pydantic: " in out
    assert "✓ configuration: " in out
    assert sorted(folder.iterdir()) == before


def test_every_requirement_and_extra_is_looked_at(doctor):
    status, found = doctor()
    assert status == 0
    assert {"Python", "toolstile", "pluggy", "pydantic", "rich"} <= set(found)
    assert {"extra mcp", "extra observability", "extra policies", "extra postgres"} <= set(found)
    assert all(
        set(each) == {"area", "subject", "severity", "text", "remedy"} for each in found.values()
    )


def test_what_is_too_old_or_missing_is_told(doctor, monkeypatch):
    from toolstile_cli.commands import doctor as surroundings

    def version(name):
        if name == "mcp":
            raise surroundings.PackageNotFoundError(name)
        return {"pluggy": "1.6.9", "rich": "13"}.get(name, "99.1rc1")

    monkeypatch.setattr(surroundings, "version", version)
    status, found = doctor()
    assert status == 1
    assert errors(found) == ["pluggy"]
    assert re.fullmatch(
        r"pluggy 1\.6\.9 is installed, but >=1\.7(\.0)? is required\.", found["pluggy"]["text"]
    )
    assert re.fullmatch(
        r"Run: python -m pip install --upgrade 'pluggy>=1\.7(\.0)?'",
        found["pluggy"]["remedy"].rstrip("."),
    )
    assert found["extra mcp"]["severity"] == "note"
    assert found["extra mcp"]["text"] == "mcp is not installed."
    assert found["extra mcp"]["remedy"].rstrip(".") == extra_remedy("mcp")


def test_what_is_required_on_some_platforms_only_may_be_missing(doctor, monkeypatch):
    from toolstile_cli.commands import doctor as surroundings

    stated = ["no-such-package>=1; platform_python_implementation == 'CPython'"]
    monkeypatch.setattr(surroundings, "requires", lambda _: stated)
    status, found = doctor()
    assert status == 0
    assert found["no-such-package"]["severity"] == "note"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("tiemout = 3\n", "did you mean 'timeout'"),
        ("timeout = -3\n", "timeout: expected a positive number of seconds"),
        ("timeout = \n", "is not valid TOML"),
        ('[[policies]]\nkind = "no_such_kind"\n', "no_such_kind"),
    ],
)
def test_what_is_wrong_with_the_configuration(doctor, config, told):
    status, found = doctor(config=config)
    assert status == 1
    assert errors(found) == ["configuration"]
    assert told in found["configuration"]["text"]
    assert "plugin 'dialects' (toolstile 0.1.0)" in found


def test_a_working_directory_that_was_removed(toolstile, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    status, out, err = toolstile("doctor", plugin=False)
    assert (status, err) == (1, "")
    assert "The working directory is gone" in out
    assert "✓ plugin 'vfs'" in out


def test_a_table_that_does_not_fit_a_plugin(doctor):
    status, found = doctor(config='[plugins.ledger]\nstore = "sqlight"\n')
    assert status == 1
    (subject,) = errors(found)
    assert subject == "plugin 'ledger' (toolstile 0.1.0)"
    assert "store" in found[subject]["text"]


@pytest.mark.slow
def test_an_approver_that_is_not_there(doctor):
    status, found = doctor(config='approver = "nobody"\n')
    assert status == 1
    assert "nobody" in found["approver"]["text"]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("", "power: stored data survives a loss of power."),
        ('durability = "process"', "process: stored data survives the death of a process."),
    ],
)
def test_the_durability_is_shown(doctor, config, told):
    _, found = doctor(config=config)
    assert (found["durability"]["severity"], found["durability"]["text"]) == ("ok", told)


def test_where_policies_are_kept(doctor, folder):
    config = '[[policies]]\nkind = "quota"\nname = "q"\nmax_calls = 3\nkeep = "kept/q.json"\n'
    subject = f"kept policies {folder / 'kept' / 'q.json'}"
    status, found = doctor(config=config)
    assert (status, found[subject]["text"]) == (0, "Nothing is kept yet.")
    (folder / "kept").mkdir()
    (folder / "kept" / "q.json").write_text("spoilt")
    status, found = doctor(config=config)
    assert (status, errors(found)) == (1, [subject])
    assert "invalid JSON" in found[subject]["text"]


def test_a_plugin_that_does_not_load_hides_nothing_else(doctor, folder):
    (folder / "broken.py").write_text(f"print({SAID.strip()!r})\nimport no_such_module\n")
    (folder / "asking.py").write_text(
        "from toolstile_hookspecs import hookimpl\n\n"
        "@hookimpl\ndef toolstile_diagnose():\n    raise OSError('no luck')\n"
    )
    status, found = doctor(config='plugin_files = ["broken.py", "asking.py"]\n')
    assert status == 1
    assert "no_such_module" in found["plugin 'broken'"]["text"]
    assert found["plugin asking"]["text"] == "Its toolstile_diagnose failed: OSError: no luck."
    assert "workspace" in found


@pytest.mark.parametrize(("config", "severity"), [("", "note"), ("[plugins.sandbox]\n", "error")])
def test_what_nobody_has_asked_for_is_no_error(doctor, monkeypatch, config, severity):
    monkeypatch.setattr(bubblewrap, "_found", lambda: None)
    _, found = doctor(config=config)
    assert found["sandbox"]["severity"] == severity
    assert ("sandbox" in errors(found)) is (severity == "error")


def test_a_command_and_a_dialect_that_another_plugin_has(doctor, folder):
    source = (
        "from toolstile_hookspecs import Command, hookimpl\n\n"
        "class Latin:\n    name = 'latin'\n\n"
        "@hookimpl\ndef toolstile_commands():\n"
        "    return [Command('go', 'go', run=lambda host, args: 0)]\n\n"
        "@hookimpl\ndef toolstile_dialects():\n    return [Latin()]\n"
    )
    for name in ("first", "second"):
        (folder / f"{name}.py").write_text(source)
    status, found = doctor(config='plugin_files = ["first.py", "second.py"]\n')
    assert (status, found["plugin 'first'"]["severity"]) == (0, "ok")
    assert found["plugin 'second'"]["severity"] == "warning"
    told = found["plugin 'second'"]["text"]
    assert "the command 'go', which plugin 'first' has already." in told
    assert "the dialect 'latin', which plugin 'first' has already." in told


SECRET = "hunter2-hunter2"


def test_no_secret_is_shown(toolstile, folder, monkeypatch):
    monkeypatch.setenv("TOOLSTILE_PLUGINS__DESK__PASSWORD", SECRET)
    (folder / "desk.py").write_text(
        "from pydantic import BaseModel, SecretStr\n"
        "from toolstile_hookspecs import hookimpl\n\n"
        "class Settings(BaseModel):\n    password: SecretStr\n\n"
        "@hookimpl\ndef toolstile_settings():\n    return Settings\n\n"
        "@hookimpl\ndef toolstile_diagnose(settings):\n"
        "    raise OSError('refused: ' + settings.password.get_secret_value())\n"
    )
    (folder / "toolstile.toml").write_text('plugin_files = ["desk.py"]\n')
    status, out, err = toolstile("doctor", plugin=False)
    assert status == 1
    assert "refused: ***" in out
    assert "TOOLSTILE_PLUGINS__DESK__PASSWORD" in out
    assert SECRET not in out + err


def test_a_workspace_and_records_in_wrong_places(doctor, folder):
    (folder / "file").write_text("This is no database. " * 100)
    status, found = doctor(
        config='[plugins.vfs]\nroot = "nowhere"\n'
        '[[plugins.vfs.mounts]]\nsource = "gone.zip"\ntarget = "docs"\n'
        '[plugins.record]\nfile = "file/record.jsonl"\nreplay = "gone.jsonl"\n'
        '[plugins.ledger]\npath = "file"\n'
    )
    assert status == 1
    assert len(errors(found)) == 5
    for subject in errors(found):
        assert found[subject]["remedy"]


def test_a_workspace_with_a_commit_that_was_not_finished(doctor, folder):
    (folder / "work" / ".toolstile" / "c1").mkdir(parents=True)
    (folder / "work" / ".toolstile" / "c1" / "decided").write_text("{}")
    status, found = doctor(config='[plugins.vfs]\nroot = "work"\n')
    assert status == 0
    told = found[f"workspace {folder / 'work'}"]
    assert told["severity"] == "warning"
    assert "1 commit" in told["text"]


@pytest.mark.slow
@pytest.mark.parametrize("held", [False, True])
def test_a_ledger_that_is_held_by_another_process(doctor, folder, held):
    with closing(SqliteStore(folder / "ledger.db")) as store:
        assert list(store.unsettled()) == []
    connection = sqlite3.connect(folder / "ledger.db", isolation_level=None)
    if held:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
    try:
        status, found = doctor(config='[plugins.ledger]\npath = "ledger.db"\n')
    finally:
        connection.close()
    assert status == 0
    severity = found[f"ledger {folder / 'ledger.db'}"]["severity"]
    assert severity == ("warning" if held else "ok")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA user_version = 99", "is of version 99, which this Toolstile does not know"),
        ("CREATE TABLE notes (text)", "is not a ledger, but a database of something else"),
    ],
)
def test_a_ledger_that_is_none_of_this_toolstile(doctor, folder, statement, words):
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        connection.execute(statement)
    status, found = doctor(config='[plugins.ledger]\npath = "ledger.db"\n')
    subject = f"ledger {folder / 'ledger.db'}"
    assert (status, errors(found)) == (1, [subject])
    assert words in found[subject]["text"]
    assert "another file" in found[subject]["remedy"]


@pytest.mark.parametrize("held", [False, True])
def test_stored_sessions_that_are_held_by_another_process(doctor, folder, held):
    connection = sqlite3.connect(folder / "state.db", isolation_level=None)
    connection.execute("CREATE TABLE toolstile_effects (key)")
    if held:
        connection.execute("BEGIN EXCLUSIVE")
    tables = '[plugins.sessions]\npath = "state.db"\n[plugins.database]\nmemory = true\n'
    try:
        status, found = doctor(config=tables)
    finally:
        connection.close()
    assert status == 0
    severity = found[f"sessions {folder / 'state.db'}"]["severity"]
    assert severity == ("warning" if held else "ok")


def test_stored_sessions_of_another_version_or_in_no_database(doctor, folder):
    tables = '[plugins.sessions]\npath = "state.db"\n[plugins.database]\nmemory = true\n'
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE toolstile_sessions_about (identity, version)")
        connection.execute("INSERT INTO toolstile_sessions_about VALUES ('i', '9')")
    subject = f"sessions {folder / 'state.db'}"
    status, found = doctor(config=tables)
    assert (status, errors(found)) == (1, [subject])
    assert "of version 9, which this Toolstile does not know" in found[subject]["text"]
    (folder / "state.db").write_text("letters" * 100)
    status, found = doctor(config=tables)
    assert (status, errors(found)) == (1, [subject])
    assert "is not a database" in found[subject]["text"]


def test_a_ledger_that_would_decide_beside_stored_sessions(doctor, folder):
    tables = '[plugins.sessions]\npath = "state.db"\n'
    status, found = doctor(config=tables + '[plugins.ledger]\npath = "ledger.db"\n')
    assert (status, errors(found)) == (1, ["sessions"])
    assert "Give both the same database" in found["sessions"]["text"]
    status, _ = doctor(config=tables + '[plugins.ledger]\npath = "state.db"\n')
    assert status == 0
    assert list(folder.glob("*.db")) == []


def test_a_store_that_a_plugin_offers(doctor, folder):
    (folder / "shelf.py").write_text(
        "from toolstile_hookspecs import Binding, hookimpl\n"
        "from toolstile_hookspecs.services.ledger import LedgerStore\n"
        "from toolstile_plugins.ledger.stores.memory import MemoryStore\n\n"
        "@hookimpl\ndef toolstile_resources():\n"
        "    return [Binding.instance(LedgerStore, MemoryStore())]\n"
    )
    _, found = doctor(config='[plugins.ledger]\npath = "gone/ledger.db"\n')
    assert f"ledger {folder / 'gone' / 'ledger.db'}" in found
    status, found = doctor(config='plugin_files = ["shelf.py"]\n')
    assert status == 0
    told = [each["text"] for subject, each in found.items() if subject.startswith("ledger")]
    assert told == ["The store that is used is offered by plugin shelf."]
    tables = '[plugins.ledger]\npath = "gone/ledger.db"\n'
    status, found = doctor(config='plugin_files = ["shelf.py"]\n' + tables)
    assert (status, found["ledger"]["severity"]) == (0, "warning")
    assert found["ledger"]["text"].endswith("So path of [plugins.ledger] is not.")
    assert (
        found["ledger"]["remedy"]
        == "Remove it there, or the setting with which shelf offers a store."
    )


def test_what_is_switched_off_is_no_more_than_a_note(doctor):
    status, found = doctor("--block=planning")
    told = found["plugin 'planning' (toolstile 0.1.0)"]
    assert (status, told["severity"]) == (0, "note")
    assert "--block" in told["text"]


def test_the_programs_of_mcp_servers(doctor, monkeypatch):
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    status, found = doctor(
        config="[plugins.mcp]\nwait = 0.2\n"
        f"[plugins.mcp.servers.good]\ncommand = {json.dumps(sys.executable)}\n"
        '[plugins.mcp.servers.gone]\ncommand = "no-such-program"\n'
        '[plugins.mcp.servers.far]\nurl = "https://ada:hunter2@example.org/mcp"\n'
        '[plugins.mcp.servers.keyed]\ncommand = "sh"\nargs = ["${NO_SUCH_VARIABLE}"]\n'
        '[plugins.mcp.servers.off]\ncommand = "no-such-program"\nenabled = false\n'
    )
    assert status == 1
    assert errors(found) == ["MCP server gone", "MCP server keyed"]
    assert "no-such-program" in found["MCP server gone"]["text"]
    assert "NO_SUCH_VARIABLE" in found["MCP server keyed"]["text"]
    assert found["MCP server good"]["severity"] == "ok"
    assert "MCP server off" not in found
    assert "hunter2" not in json.dumps(found)


def test_what_is_wrong_needs_a_remedy():
    with pytest.raises(DefinitionError, match="how to fix it"):
        Diagnostic("a file", "It is not there.", Severity.ERROR)
    assert Diagnostic("a file", "It is there.", "ok").severity is Severity.OK
    assert Diagnostic.note("a file", "It is not there.").remedy is None
