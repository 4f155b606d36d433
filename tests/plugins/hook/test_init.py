"""`toolstile init` shows each change, writes it, and proves it by a refused call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.hook.hooked import Workspace

from toolstile_cli.main import main

pytestmark = pytest.mark.slow

SERVERS = """\
{
  // mine
  "mcpServers": {"files": {"command": "npx", "args": ["-y", "server-filesystem", "."]}}
}
"""
RULE = """\
[[policies]]
kind = "rule"
name = "mine"
effect = "ask"
tools = ["Bash"]
when = "true"
"""


def files(workspace: Workspace) -> Mapping[str, bytes]:
    """Return a person's files, without the files of open hosts."""
    found = [*workspace.folder.rglob("*"), *workspace.home.rglob("*")]
    own = (each for each in found if each.is_file() and ".toolstile" not in each.parts)
    return {str(each): each.read_bytes() for each in own}


def init(workspace: Workspace, *words: str, status: int = 0) -> dict[str, Any]:
    done = workspace.command("init", *words, "--json")
    assert done.returncode == status, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def found(hooked: Workspace) -> Workspace:
    """A project with Claude Code, Codex and a server of Claude Code."""
    (hooked.folder / ".claude").mkdir()
    (hooked.home / ".codex").mkdir()
    (hooked.folder / ".mcp.json").write_text(SERVERS)
    return hooked


def test_it_governs_what_it_finds_and_a_second_time_changes_nothing(found: Workspace) -> None:
    made = init(found, "--yes")
    titles = [(each["title"], each["written"]) for each in made["changes"]]
    agents = ("The hook of Claude Code", "The hook of Codex")
    assert titles == [(each, True) for each in ("The rules", *agents, "MCP servers")]
    (proof,) = made["proofs"]
    assert (proof["by"], proof["call"]) == ("Claude Code", "git status && rm -rf /")
    assert proof["refused"]
    assert "does not run this command here: rm -rf /" in proof["reason"]
    assert any("Codex runs these hooks once you trust them" in each for each in made["notes"])

    before = files(found)
    again = init(found, "--yes")
    assert (again["changes"], [each["refused"] for each in again["proofs"]]) == ([], [True])
    assert files(found) == before
    shown = found.command("init").stdout
    assert "Everything that was found is governed already, so nothing was changed." in shown

    assert found.bash("sudo ls")["permissionDecision"] == "deny"
    assert found.bash("git status") == {}
    assert found.bash("make deploy_all && ./x")["permissionDecision"] == "defer"
    # The wrapper of a wrapped server asks; the hook asks about all others.
    assert found.decision(found.event("PreToolUse", "mcp__files__read", arguments={})) == {}
    other = found.decision(found.event("PreToolUse", "mcp__other__read", arguments={}))
    assert other["permissionDecision"] == "defer"
    assert "corrects no tool" not in found.command("status").stderr


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_each_agent_refuses_the_call_of_the_proof(hooked: Workspace, name: str) -> None:
    folder = {"codex": hooked.home / ".codex"}.get(name, hooked.folder / f".{name[:6]}")
    folder.mkdir()
    made = init(hooked, "--yes")
    assert [each["title"][:11] for each in made["changes"]] == ["The rules", "The hook of"]
    (proof,) = made["proofs"]
    assert proof["refused"]
    assert "does not run this command here: rm -rf /" in proof["reason"]


def test_a_hook_and_wrapped_servers_share_a_file(hooked: Workspace) -> None:
    file = hooked.folder / ".gemini/settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"theme": "dark", **json.loads(SERVERS.replace("// mine", ""))}))
    made = init(hooked, "--yes")
    titles = [each["title"] for each in made["changes"]]
    assert titles == ["The rules", "The hook of Gemini CLI", "MCP servers"]
    settings = json.loads(file.read_text())
    assert settings["theme"] == "dark"
    assert "BeforeTool" in settings["hooks"]
    assert settings["mcpServers"]["files"]["args"][0] == "wrap"
    assert '[tools."mcp_files_*"]' in (hooked.folder / "toolstile.toml").read_text()
    assert init(hooked, "--yes")["changes"] == []


def test_everything_goes_back(found: Workspace) -> None:
    before = files(found)
    init(found, "--yes")
    found.command("unwrap", "--in", ".mcp.json")
    found.person("hook", "uninstall", "claude-code")
    found.person("hook", "uninstall", "codex", "--user")
    (found.folder / "toolstile.toml").unlink()
    assert files(found) == before


@pytest.mark.parametrize(
    ("words", "status"), [(["--dry-run"], 0), (["--dry-run", "--yes"], 0), ([], 1)]
)
def test_a_look_writes_nothing(found: Workspace, words: list[str], status: int) -> None:
    before, state = files(found), [*found.state.rglob("*")]
    made = init(found, *words, status=status)
    assert [each["written"] for each in made["changes"]] == [False] * 4
    assert made["proofs"] == []
    done = found.command("init", *words)
    assert done.returncode == status
    assert '+preset = "developer"' in done.stdout
    assert "Nothing was written." in done.stdout
    assert (files(found), [*found.state.rglob("*")]) == (before, state)


def test_a_person_chooses_each_change(found: Workspace) -> None:
    done = answered(found, "y\nn\nn\ny\n")
    assert done.returncode == 0, done
    assert done.stdout.count("Write this? [y/N]") == 4
    assert (found.folder / "toolstile.toml").exists()
    assert not (found.folder / ".claude/settings.json").exists()
    assert '/toolstile", "args": ["wrap"' in (found.folder / ".mcp.json").read_text()
    # No agent is governed, so the proof is that of the server.
    assert "Proof: A client asks to run `write_file`: refused." in done.stdout
    assert not list(found.state.glob("toolstile/wrap/inbox.db"))


def answered(workspace: Workspace, typed: str) -> subprocess.CompletedProcess[str]:
    """Run the command at a terminal on which a person types."""
    master, slave = os.openpty()
    os.write(master, typed.encode())
    try:
        return subprocess.run(
            [sys.executable, "-m", "toolstile", "init"],
            env=workspace.environment,
            cwd=workspace.folder,
            stdin=slave,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_of_a_configuration_only_the_missing_is_added(found: Workspace, end: str) -> None:
    text = (RULE + '\n[plugins.record]\nfile = "../calls.jsonl"').replace("\n", end)
    (found.folder / "toolstile.toml").write_bytes(text.encode())
    made = init(found, "--yes")
    content = (found.folder / "toolstile.toml").read_bytes().decode()
    assert content.startswith(text)
    added = content.removeprefix(text)
    assert "[plugins.inbox]" in added
    assert "policies" not in added
    assert "record" not in added.replace("records", "")
    assert added.count("\n") == added.count(end)
    # The person's rule asks about the first call, so the protection refuses the second.
    (proof,) = made["proofs"]
    assert proof["refused"]
    assert proof["call"].endswith(".claude/settings.json")
    assert "protected" in proof["reason"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("toolstile.toml", "policies = []\n"),
        ("pyproject.toml", "[tool.toolstile]\ntimeout = 5\n"),
        ("../toolstile.toml", "timeout = 5\n"),
    ],
)
def test_a_configuration_that_cannot_be_added_to_is_named(
    found: Workspace, file: str, text: str
) -> None:
    place = (found.folder / file).resolve()
    place.write_text(text)
    made = init(found, "--dry-run")
    assert "The rules" not in [each["title"] for each in made["changes"]]
    assert any(each.startswith(f"Add these lines to {place} yourself:\n") for each in made["notes"])


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        (".claude/settings.json", "{", "is not valid JSON"),
        (".claude/settings.json", "[]", "has no JSON object"),
        ("toolstile.toml", "x = ", "is not valid TOML"),
    ],
)
def test_broken_files_are_named_and_nothing_is_lost(
    found: Workspace, file: str, text: str, told: str
) -> None:
    (found.folder / file).write_text(text)
    before = files(found)
    done = found.command("init", "--yes")
    assert done.returncode == 2, done
    assert told in done.stderr
    assert files(found) == before


def test_a_broken_file_of_a_client_stays_and_the_rest_is_governed(found: Workspace) -> None:
    (found.folder / ".mcp.json").write_text('{"mcpServers": {')
    made = init(found, "--yes")
    assert (found.folder / ".mcp.json").read_text() == '{"mcpServers": {'
    assert any("is not JSON" in each for each in made["notes"])
    assert made["proofs"][0]["refused"]


def test_links_stay_links(found: Workspace) -> None:
    for name, text in {".claude/settings.json": "{}", ".mcp.json": SERVERS}.items():
        real = found.home / Path(name).name
        real.write_text(text)
        (found.folder / name).unlink(missing_ok=True)
        (found.folder / name).symlink_to(real)
    init(found, "--yes")
    assert (found.folder / ".claude/settings.json").is_symlink()
    assert "PreToolUse" in (found.home / "settings.json").read_text()
    assert (found.folder / ".mcp.json").is_symlink()
    assert '"wrap"' in (found.home / ".mcp.json").read_text()


def test_an_unwritable_place_is_named(found: Workspace) -> None:
    (found.folder / ".claude/settings.json").mkdir()
    before = files(found)
    done = found.command("init", "--yes")
    assert done.returncode == 2, done
    assert f"{found.folder}/.claude/settings.json cannot be read or written: " in done.stderr
    assert files(found) == before


def test_a_write_that_fails_is_named_and_a_later_run_does_the_rest(found: Workspace) -> None:
    settings = found.folder / ".claude/settings.json"
    settings.symlink_to("/proc/settings.json")  # where no file can be made
    done = found.command("init", "--yes")
    assert done.returncode == 2, done
    assert "cannot be read or written: No such file or directory" in done.stderr
    assert not settings.exists()
    settings.unlink()
    done = found.person("init", "--yes", "--json")
    titles = [each["title"] for each in json.loads(done.stdout)["changes"]]
    assert titles == ["The hook of Claude Code", "The hook of Codex", "MCP servers"]


def test_agents_cannot_run_it_beside_a_hook(found: Workspace) -> None:
    init(found, "--yes")
    (found.folder / ".gemini").mkdir()
    found.more["CLAUDECODE"] = "1"
    before = files(found)
    done = found.command("init", "--yes")
    assert done.returncode == 2
    assert "an agent runs this command" in done.stderr
    assert files(found) == before


def test_settings_in_git_are_warned_of(found: Workspace) -> None:
    file = found.folder / ".claude/settings.json"
    file.write_text("{}")
    for words in (["init", "-q"], ["add", "-f", str(file), ".mcp.json"]):
        subprocess.run(["git", *words], cwd=found.folder, check=True)
    notes = init(found, "--dry-run")["notes"]
    tracked = [each.partition(" is in git")[0] for each in notes if " is in git" in each]
    assert [Path(each).name for each in tracked] == ["settings.json", ".mcp.json"]


def test_missing_libraries_are_named_before_a_change(
    found: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(found)
    monkeypatch.chdir(found.folder)
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, found.environment[name])
    monkeypatch.setattr("toolstile_plugins.hook.init.find_spec", lambda _: None)
    assert main(["init", "--yes"]) == 2
    said = capsys.readouterr().err
    assert "need libraries that are not installed, so nothing was changed. Run: " in said
    assert "[mcp,policies]" in said
    assert files(found) == before


def test_without_agents_servers_and_frameworks_nothing_is_found(
    hooked: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(hooked.folder)
    monkeypatch.setenv("HOME", str(hooked.home))
    monkeypatch.setenv("PATH", str(hooked.home))
    monkeypatch.setattr("toolstile_plugins.hook.init.find_spec", lambda _: None)
    assert main(["init"]) == 2
    assert "Nothing to govern was found here" in capsys.readouterr().err


def test_a_home_directory_is_refused(hooked: Workspace) -> None:
    hooked.home = hooked.folder
    done = hooked.command("init", "--yes")
    assert done.returncode == 2
    assert "This is your home directory" in done.stderr


def test_a_lost_proof_ends_with_1(found: Workspace) -> None:
    init(found, "--yes")
    # The hook does not use a folder that others can read: it refuses without a decision.
    (state,) = found.state.glob("toolstile/hook/*/records")
    state.parent.chmod(0o755)
    done = found.command("init")
    assert done.returncode == 1, done
    assert "NOT refused. See `toolstile hook doctor`." in done.stdout
