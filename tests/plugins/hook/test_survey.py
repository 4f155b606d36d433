"""`toolstile status` names the governed agents, and their calls that can be undone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.hook.hooked import Workspace

pytestmark = pytest.mark.slow


def status(workspace: Workspace) -> dict[str, Any]:
    done = workspace.command("status", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_names_agents_and_their_calls(hooked: Workspace) -> None:
    assert status(hooked)["agents"] == []
    hooked.command("hook", "install", "claude-code")
    hooked.person("hook", "install", "codex", "--user")
    arguments = {"file_path": str(hooked.folder / "a.txt"), "content": "x"}
    event = hooked.event("PreToolUse", "Write", arguments=arguments, id="toolu_w")
    assert hooked.decision(event) == {}
    (hooked.folder / "a.txt").write_text("x")
    hooked.send({**event, "hook_event_name": "PostToolUse", "tool_response": "done"})
    found = status(hooked)
    assert [each["agent"] for each in found["agents"]] == ["claude-code", "codex"]
    assert "Bash" in found["agents"][0]["tools"]
    assert [each["tool"] for each in found["undoable"]] == ["Write"]
    shown = hooked.command("status").stdout
    own = f"{len(found['agents'][0]['tools'])} built-in tools; tools of MCP servers ask you,"
    assert f"/.claude/settings.json: the rules apply to its {own}" in shown
    assert "Can be undone: 1 call of the last day" in shown


def test_the_last_calls_have_no_probes(hooked: Workspace) -> None:
    hooked.configure(hooked.rules())
    hooked.command("hook", "install", "claude-code")
    assert hooked.bash("rm x")["permissionDecision"] == "deny"
    assert hooked.command("hook", "doctor").returncode == 0
    assert len(hooked.recorded()) > 1
    assert [each["tool"] for each in status(hooked)["calls"]] == ["bash"]


def test_calls_without_the_hook_are_counted(hooked: Workspace, tmp_path: Path) -> None:
    hooked.command("hook", "install", "claude-code")
    transcript = tmp_path / "s1.jsonl"
    sub_agents = tmp_path / "s1/subagents"
    sub_agents.mkdir(parents=True)

    def write(file: Path, *results: tuple[str, str]) -> None:
        parts = [
            {"type": "tool_result", "tool_use_id": f"toolu_{id_}", "content": text}
            for id_, text in results
        ]
        lines = [{"type": "summary"}, {"message": {"role": "user", "content": "go"}}]
        lines += [{"message": {"role": "user", "content": parts}}]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    more = {"id": "toolu_a", "transcript_path": str(transcript)}
    hooked.bash("ls", **more)
    refused = "<tool_use_error>File has not been read yet.</tool_use_error>"
    write(transcript, ("a", "x"), ("r", refused))
    assert "unwatched" not in status(hooked)
    write(transcript, ("a", "x"), ("b", "x"), ("r", refused))
    write(sub_agents / "agent-1.jsonl", ("c", "x"))
    told = "2 calls of the last session passed no hook."
    assert status(hooked)["unwatched"] == [{"text": told}]


def test_too_many_files_are_said(hooked: Workspace) -> None:
    hooked.command("hook", "install", "claude-code")
    for number in range(20_001):
        (hooked.folder / f"{number}").touch()
    hooked.bash("ls")
    assert "more than 20,000 paths" in hooked.command("status").stdout


def test_missing_lines_are_said(hooked: Workspace) -> None:
    hooked.command("hook", "install", "claude-code")
    file = hooked.folder / ".claude/settings.json"
    settings = json.loads(file.read_text())
    del settings["hooks"]["PreToolUse"]
    file.write_text(json.dumps(settings))
    assert [each["whole"] for each in status(hooked)["agents"]] == [False]
    shown = hooked.command("status").stdout
    assert "lines are missing. Run `toolstile hook install claude-code`." in shown
