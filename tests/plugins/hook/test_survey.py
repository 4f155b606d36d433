"""`toolstile status` names the governed agents, and their calls that can be undone."""

from __future__ import annotations

import json
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
    assert f"Agent: Claude Code, by {hooked.folder}/.claude/settings.json: " in shown
    assert "Can be undone: 1 call of the last day" in shown


def test_missing_lines_are_said(hooked: Workspace) -> None:
    hooked.command("hook", "install", "claude-code")
    file = hooked.folder / ".claude/settings.json"
    settings = json.loads(file.read_text())
    del settings["hooks"]["PreToolUse"]
    file.write_text(json.dumps(settings))
    assert [each["whole"] for each in status(hooked)["agents"]] == [False]
    shown = hooked.command("status").stdout
    assert "lines are missing. Run `toolstile hook install claude-code`." in shown
