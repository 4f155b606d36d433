"""While a hook is installed, decisions need a person's terminal."""

from __future__ import annotations

import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.plugins.hook.hooked import Workspace

from toolstile import ConfigurationError, Host
from toolstile_plugins.hook import person
from toolstile_plugins.hook.person import refuse_agents
from toolstile_plugins.hook.processes import MARKS

pytestmark = pytest.mark.slow


@pytest.fixture
def installed(hooked: Workspace) -> Workspace:
    hooked.configure("")  # without a configuration, no host hears of `go`
    assert hooked.command("hook", "install", "claude-code").returncode == 0
    return hooked


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("go", True),
        ("stop --reason x", False),
        ("status", False),
        ("approvals", False),
        ("approvals --wrapped", False),
        ("approvals list", False),
        ("approvals --json list", False),
        ("approvals approve 0123 --reason list", True),
        ("undo --list", False),
        ("undo", False),
        ("undo --yes", True),
        ("mcp --http 127.0.0.1:0", False),
        ("mcp --http 127.0.0.1:0 --console", True),
        ("mcp check one --accept", True),
        ("mcp check one", False),
        ("undo --last", True),
        ("ledger show x", False),
        ("ledger resolve show --done", True),
        ("hook doctor", False),
        ("hook uninstall codex", True),
        ("console", True),
        ("", False),
    ],
)
def test_commands_that_decide(line: str, expected: bool) -> None:
    assert Host().decides(line.split()) == expected


TICKETS = """\
from toolstile_hookspecs import Command, hookimpl


@hookimpl
def toolstile_commands():
    run = lambda host, args: print("done")
    configure = lambda parser: parser.add_argument("what")
    decides = lambda words: words != ["list"]
    return [Command("tickets", run=run, configure=configure, decides=decides)]
"""


def test_a_plugin_of_others_declares_a_decision(installed: Workspace) -> None:
    (installed.folder / "tickets.py").write_text(TICKETS)
    installed.configure('plugin_files = ["tickets.py"]\n')
    assert installed.command("tickets", "list").returncode == 0
    for words in (("tickets", "close"), ("--block", "hook", "tickets", "close")):
        done = installed.command(*words)
        assert done.returncode == 2
        assert "has no terminal" in done.stderr
    assert installed.person("tickets", "close").returncode == 0
    assert installed.bash("toolstile tickets list") == {}
    assert installed.bash("toolstile tickets close")["permissionDecision"] == "deny"


def test_without_a_hook_anyone_decides(hooked: Workspace) -> None:
    hooked.configure("")
    assert hooked.command("go").returncode == 0


def test_a_person_decides_at_a_terminal(installed: Workspace) -> None:
    assert "has no terminal" in installed.command("go").stderr
    assert installed.person("go").returncode == 0


@pytest.mark.parametrize("mark", MARKS)
def test_an_agents_command_decides_nothing(installed: Workspace, mark: str) -> None:
    installed.more[mark] = "1"
    done = installed.person("go")
    assert done.returncode == 2
    assert "an agent runs this command" in done.stderr


def test_another_folder_for_state_makes_no_person(installed: Workspace, tmp_path: Path) -> None:
    installed.more |= {"CLAUDECODE": "1", "XDG_STATE_HOME": str(tmp_path / "empty")}
    assert "an agent runs this command" in installed.person("go").stderr


def test_the_folder_of_the_user_counts_beside_that_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mark in ("XDG_STATE_HOME", *MARKS):
        monkeypatch.setenv(mark, "")
    monkeypatch.setenv("HOME", str(tmp_path / "empty"))
    state = tmp_path / ".local/state/toolstile/hook"

    def user(_: int) -> SimpleNamespace:
        return SimpleNamespace(pw_dir=str(tmp_path))

    monkeypatch.setattr(person, "getpwuid", user)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    refuse_agents(["go"])
    state.mkdir(parents=True)
    (state / "installed.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="terminal"):
        refuse_agents(["go"])


def note(workspace: Workspace, process: int, since: float) -> None:
    folder = workspace.state / "toolstile/hook/other"
    folder.mkdir()
    (folder / "sessions.json").write_text(json.dumps({"s": [since, process]}))


def test_a_process_below_an_agent_decides_nothing(installed: Workspace) -> None:
    note(installed, os.getpid(), time.time())
    assert "an agent runs this command" in installed.person("go").stderr


def test_the_session_of_an_agent_that_is_gone_does_not_count(installed: Workspace) -> None:
    note(installed, 2**22 + 1, 1.0)
    assert installed.person("go").returncode == 0


def test_a_process_that_took_the_number_of_an_agent_does_not_count(installed: Workspace) -> None:
    note(installed, os.getpid(), 1.0)
    assert installed.person("go").returncode == 0


@pytest.mark.skipif(not Path("/proc/1/stat").exists(), reason="the first process is unknown")
def test_a_terminal_that_is_newer_than_a_session_does_not_count(installed: Workspace) -> None:
    # As if the first process were an agent that began its session at once.
    note(installed, 1, time.time() - time.monotonic() + 3)
    assert "opened after an agent's session began" in installed.person("go").stderr


def test_a_check_of_the_hook_leaves_no_session_of_an_agent(installed: Workspace) -> None:
    assert installed.command("hook", "doctor").returncode == 0
    (file,) = installed.state.glob("toolstile/hook/*/sessions.json")
    # One of an unknown process would count for hours, and newer terminals as opened by an agent.
    assert json.loads(file.read_text()) == {}
