"""`toolstile hook install` and `uninstall` change only their own lines of an agent's settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.hook.hooked import Workspace

from toolstile_plugins.hook.agents import AGENTS, ClaudeCode
from toolstile_plugins.hook.install import with_hook, without_hook, write_settings

pytestmark = pytest.mark.slow

OWN = {
    "model": "sonnet",
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}],
        "Notification": [],
    },
}
TEXTS = {
    "absent": None,
    "empty": "",
    "an object": "{}",
    "own hooks": json.dumps(OWN, indent=4),
    "CRLF and no end of line": '{\r\n  "model": "sonnet"}',
    "letters": '{"x": "ä\\u00e4"}\n',
}


def install(workspace: Workspace, *words: str) -> str:
    done = workspace.command("hook", "install", "claude-code", *words)
    assert done.returncode == 0, done
    return done.stdout


def uninstall(workspace: Workspace, *words: str) -> str:
    done = workspace.person("hook", "uninstall", "claude-code", *words)
    assert done.returncode == 0, done
    return done.stdout


def hooks_in(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())["hooks"]


def test_a_planted_link_leads_nowhere(tmp_path: Path) -> None:
    file, other = tmp_path / "settings.json", tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "settings.json.toolstile").symlink_to(other)
    write_settings(file, "{}")
    assert (file.read_text(), other.read_text()) == ("{}", "mine")
    assert file.stat().st_mode & 0o777 == 0o644
    file.chmod(0o640)
    write_settings(file, "[]")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("[]", 0o640)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_uninstall_gives_back_every_byte(hooked: Workspace, text: str | None) -> None:
    file = hooked.folder / ".claude" / "settings.json"
    if text is not None:
        file.parent.mkdir()
        file.write_bytes(text.encode())
    assert "PreToolUse" in install(hooked)
    assert {*ClaudeCode.EVENTS} <= {*hooks_in(file)}
    done = hooked.person("hook", "install", "claude-code")
    assert "has the hook already" in done.stdout
    uninstall(hooked)
    assert (file.read_bytes().decode() if file.exists() else None) == text


def test_uninstall_says_how_to_remove_the_contents_that_stay(hooked: Workspace) -> None:
    def kept() -> list[Path]:
        files = (each for each in hooked.state.rglob("*") if each.is_file())
        return [each for each in files if b"the former content" in each.read_bytes()]

    install(hooked)
    file = hooked.folder / "f"
    file.write_text("the former content")
    call = hooked.event("PreToolUse", "Bash", arguments={"command": "echo after > f"})
    assert hooked.decision(call) == {}
    file.write_text("after")
    hooked.send({**call, "hook_event_name": "PostToolUse", "tool_response": ""})
    hooked.kill()
    removes = re.search(r"`(rm -r [^`]+)`", uninstall(hooked))
    assert removes is not None
    assert kept()
    assert "of 1 call are removed" in hooked.person("undo", "purge").stdout
    subprocess.run(["sh", "-c", removes[1]], check=True)
    assert kept() == []


def test_lines_that_were_added_since_stay(hooked: Workspace) -> None:
    file = hooked.folder / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(json.dumps(OWN))
    install(hooked)
    edited = json.loads(file.read_text()) | {"theme": "dark"}
    file.write_text(json.dumps(edited))
    shown = uninstall(hooked)
    assert json.loads(file.read_text()) == {**OWN, "theme": "dark"}
    assert "-" in shown


def test_the_users_settings_may_be_a_link(hooked: Workspace) -> None:
    real = hooked.home / "dotfiles.json"
    real.write_text("{}")
    real.chmod(0o600)
    file = hooked.home / ".claude" / "settings.json"
    file.parent.mkdir()
    file.symlink_to(real)
    install(hooked, "--user")
    assert file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert "PreToolUse" in hooks_in(real)


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}'])
def test_settings_that_are_wrong_stay_as_they_are(hooked: Workspace, text: str) -> None:
    file = hooked.folder / ".claude" / "settings.json"
    file.parent.mkdir()
    file.write_text(text)
    done = hooked.command("hook", "install", "claude-code")
    assert done.returncode != 0
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_text() == text


def test_uninstall_without_a_hook_changes_nothing(hooked: Workspace) -> None:
    assert "has no hook of ours" in uninstall(hooked)
    assert not (hooked.folder / ".claude").exists()


def test_a_hook_of_another_place_counts_as_ours() -> None:
    line = "sh /old/toolstile_plugins/hook/hook.sh /old/python claude-code 30 2 || exit 2"
    group = {"matcher": "*", "hooks": [{"type": "command", "command": line}]}
    assert without_hook({"hooks": {"Stop": [group]}}) == {}


def test_a_persons_hook_in_our_group_stays() -> None:
    mine = {"type": "command", "command": "mine.sh"}
    settings = with_hook(AGENTS["claude-code"], {})
    settings["hooks"]["PreToolUse"][0]["hooks"].append(mine)
    left = [{"matcher": ".*", "hooks": [mine]}]
    assert without_hook(settings) == {"hooks": {"PreToolUse": left}}
    assert with_hook(AGENTS["claude-code"], settings)["hooks"]["PreToolUse"][0] == left[0]


def test_a_hook_may_run_before_a_command_of_a_person(hooked: Workspace) -> None:
    # Its client has made the folders of the state then.
    hooked.bash("true")
    assert (hooked.state / "toolstile" / "hook").stat().st_mode & 0o777 == 0o700
    assert "PreToolUse" in install(hooked)


def test_an_event_that_is_not_json_is_named(hooked: Workspace) -> None:
    done = hooked.command("hook", "test", "claude-code", input="{")
    assert (done.returncode, "is not JSON" in done.stderr) == (2, True), done


def test_doctor_runs_the_command(hooked: Workspace) -> None:
    assert "No hook is installed" in hooked.command("hook", "doctor").stdout
    install(hooked)
    done = hooked.command("hook", "doctor")
    assert done.returncode == 0, done
    assert "the hook fires for a call and a call of a sub-agent." in done.stdout
    file = hooked.folder / ".claude" / "settings.json"
    whole = file.read_text()
    file.write_text(whole.replace("/hook.sh", "/gone/hook.sh"))
    assert "/gone/hook.sh" in file.read_text()
    done = hooked.command("hook", "doctor")
    assert done.returncode == 1
    for what in ("a call", "a call of a sub-agent"):
        assert f"the hook does not fire for {what}: " in done.stdout
    file.write_text(whole)
    left = json.loads(file.read_text())
    del left["hooks"]["Stop"]
    file.write_text(json.dumps(left))
    done = hooked.command("hook", "doctor", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["faults"] == ["no line for Stop"]


def test_a_tested_event_that_asks_has_the_answer_of_the_hook_and_leaves_no_question(
    hooked: Workspace,
) -> None:
    hooked.configure(hooked.rules())
    event = hooked.event("PreToolUse", "Bash", arguments={"command": "git push"})
    told = {"defer": "Then call bash again", "ask": "A push is for the user."}
    for entry, verdict in (("sdk-cli", "defer"), ("cli", "ask")):
        hooked.entry = entry
        done = hooked.command("hook", "test", "claude-code", input=json.dumps(event))
        said = json.loads(done.stdout)["hookSpecificOutput"]
        assert said["permissionDecision"] == verdict, done
        assert told[verdict] in said["permissionDecisionReason"]
    listed = hooked.command("approvals", "list", "--json")
    assert (listed.returncode, listed.stdout) == (0, ""), listed


def test_an_event_is_tested(hooked: Workspace) -> None:
    event = hooked.event("PreToolUse", "Bash", arguments={"command": "rm toolstile.toml"})
    done = hooked.command("hook", "test", "claude-code", input=json.dumps(event))
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    event["tool_input"] = {"command": "ls"}
    done = hooked.command("hook", "test", "claude-code", input=json.dumps(event))
    assert done.stdout == "Nothing: the agent's own permissions decide.\n"
    assert hooked.helper is None


def test_settings_of_the_machine_are_in_their_place() -> None:
    file = ClaudeCode().settings_file("managed", Path("/work"))
    assert file == Path("/etc/claude-code/managed-settings.json")


def test_the_folder_of_the_users_settings_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", os.sep + "own")
    assert ClaudeCode().settings_file("user", Path("/work")) == Path("/own/settings.json")
