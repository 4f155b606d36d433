"""A command imports what it needs, and no more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolstile_cli.main import main

# Each starts a process, which does the same on every Python.
pytestmark = pytest.mark.slow

SPEAKING = {"fsspec", "httpx", "mcp", "opentelemetry.sdk"}
"""The modules that no command imports without a server, a mount or a trace to speak to."""


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Runs a command in a process of its own, and returns the modules that are loaded then."""
    monkeypatch.chdir(tmp_path)

    def run(command):
        code = (
            "import sys; from toolstile_cli.main import main; status = main(sys.argv[1:]);"
            "print(); print(*sys.modules); sys.exit(status)"
        )
        words = [sys.executable, "-c", code, *command.split()]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return set(done.stdout.splitlines()[-1].split())

    return run


@pytest.mark.parametrize("command", ["tools", "plugins"])
def test_a_list_imports_no_event_loop_database_or_protocol(loaded, command):
    assert not loaded(command) & {"asyncio", "sqlite3", *SPEAKING}


@pytest.mark.parametrize("command", ["list .", "show calls.jsonl", "verify calls.jsonl"])
def test_a_look_at_records_imports_no_plugin_that_has_no_part_in_it(loaded, command):
    assert main(["run", "--example", "--record", "calls.jsonl"]) == 0
    found = loaded(f"record {command}")
    assert not found & {"asyncio", "sqlite3", *SPEAKING}
    ours = {name.split(".")[1] for name in found if name.startswith("toolstile_plugins.")}
    assert "record" in ours
    assert not ours & {"ledger", "mcp", "planning", "sessions", "vfs"}
    assert "toolstile_plugins.isolation.parent" not in found


def test_a_look_at_records_takes_tools_that_declare_isolation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "apart.py").write_text(
        "from toolstile_hookspecs import MarkdownSection, hookimpl, tool\n"
        "@tool(isolation='process')\n"
        "def apart() -> str:\n"
        "    'Run apart.'\n"
        "    return 'done'\n"
        "@hookimpl\n"
        "def toolstile_sections():\n"
        "    return [MarkdownSection(key='apart', title='Apart', tools=[apart])]\n"
    )
    assert main(["run", "--example", "--record", "calls.jsonl"]) == 0
    assert main(["record", "show", "calls.jsonl", "--plugin", "apart.py"]) == 0


def test_a_look_at_records_starts_no_server(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--example", "--record", "calls.jsonl"]) == 0
    (tmp_path / "toolstile.toml").write_text(
        '[plugins.mcp.servers.gone]\ncommand = "no-such-program"\n[plugins.vfs]\nroot = "gone"\n'
        '[[policies]]\nkind = "rate_limit"\nmax_calls = 1\ntools = ["gone_say"]\n'
    )
    capsys.readouterr()
    assert main(["record", "list", "."]) == 0
    assert capsys.readouterr().err == ""
    assert main(["tools"]) == 2


@pytest.mark.parametrize("command", ["ledger list", "sessions list"])
def test_a_look_at_what_is_stored_starts_no_server(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolstile.toml").write_text(
        '[plugins.mcp.servers.gone]\ncommand = "touch"\nargs = ["started"]\n'
        '[plugins.ledger]\npath = "state.db"\n[plugins.sessions]\npath = "state.db"\n'
        '[[policies]]\nkind = "rate_limit"\nmax_calls = 1\ntools = ["gone_say"]\n'
    )
    assert main(command.split()) == 0
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "started").exists()
    main(["tools"])
    assert (tmp_path / "started").exists()


SUITE = """
from toolstile_hookspecs import MarkdownSection, hookimpl, tool
from toolstile_plugins.policies import SequentialDependencyPolicy


@tool(depends_on=["planning_setup_plan"])
def review() -> str:
    '''Review the plan.'''
    return "reviewed"


@hookimpl
def toolstile_sections():
    first = SequentialDependencyPolicy(dependencies={"review": {"planning_setup_plan"}})
    return [MarkdownSection(key="desk", title="Desk", tools=[review], policies=[first])]
"""
"""A plugin whose tools and rules stand on those of another."""


@pytest.mark.parametrize(
    "naming",
    [
        "[tools.gone_say]\nrequires_confirmation = true",
        "[tools.planning_setup_plan]\nconsequence = 'high'",
        "approve_diff = ['gone_say']",
        "approver = 'mcp'",
        "tags = ['mcp']",
        "plugin_files = ['suite.py']",
    ],
)
@pytest.mark.parametrize("command", ["ledger list", "sessions list", "record list ."])
def test_a_look_holds_no_names_against_tools_that_it_leaves_out(
    tmp_path, monkeypatch, capsys, naming, command
):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--example", "--record", "calls.jsonl"]) == 0
    (tmp_path / "suite.py").write_text(SUITE)
    (tmp_path / "toolstile.toml").write_text(
        f"{naming}\n[plugins.planning]\n[plugins.ledger]\npath = 'state.db'\n"
        "[plugins.sessions]\npath = 'state.db'\n"
        "[plugins.mcp.servers.gone]\ncommand = 'no-such-program'\n"
    )
    capsys.readouterr()
    assert main(command.split()) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command",
    ["ledger list", "sessions list", "prompt", "check vfs", "call list_directory {} --workspace ."],
)
def test_other_commands_import_no_protocol(loaded, tmp_path, command):
    (tmp_path / "toolstile.toml").write_text(
        '[plugins.sessions]\npath = "state.db"\n[plugins.database]\nmemory = true\n'
    )
    assert not loaded(command) & SPEAKING
