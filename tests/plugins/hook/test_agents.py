"""Events and answers in the forms of Codex and Gemini CLI; Claude Code's are played."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.hook.agents import AGENTS, Codex, Decision, GeminiCli
from toolstile_plugins.hook.client import PASSED

NONE = dict.fromkeys(PASSED, "")
CALL = {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}, "session_id": "s"}


def event(name: str, **more: Any) -> Any:
    return GeminiCli().read({"hook_event_name": name, **CALL, **more}, NONE)


def test_equal_calls_of_gemini_have_one_place_and_no_id() -> None:
    first, second = event("BeforeTool"), event("AfterTool", tool_response={"llmContent": "a"})
    assert first.place == second.place
    assert first.given_id == ""
    other = event("BeforeTool", tool_input={"command": "pwd"})
    assert other.place != first.place


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ({"llmContent": "Output: a\nProcess Group PGID: 7"}, None),
        (
            {"llmContent": "Output: (empty)\nExit Code: 1\nProcess Group PGID: 7"},
            "Exit Code: 1",
        ),
        ({"llmContent": "Exit Code: 0"}, None),
        ({"llmContent": "Output: a\nExit Code: 1\n\n[System] Changed."}, "Exit Code: 1"),
        ({"llmContent": "<context>\nOutput: a\nExit Code: 1\n</context>"}, "Exit Code: 1"),
        ({"llmContent": "Output: a\nExit Code: 1\nb\nProcess Group PGID: 7"}, None),
        (
            {
                "llmContent": "Output: a\nExit Code: 1\nProcess Group PGID: 7",
                "returnDisplay": "a\nExit Code: 1",
            },
            None,
        ),
        (
            {
                "llmContent": "Output: Exit Code: 0\nExit Code: 1\nProcess Group PGID: 7",
                "returnDisplay": "Exit Code: 0",
            },
            "Exit Code: 1",
        ),
        ({"llmContent": "", "error": {"message": "no"}}, "{'message': 'no'}"),
        (None, None),
    ],
)
def test_a_failure_of_gemini_stands_in_its_text(response: Any, error: str | None) -> None:
    assert event("AfterTool", tool_response=response).error == error


def test_answers_to_gemini() -> None:
    def answer(name: str, **more: Any) -> Any:
        text = GeminiCli().write(event(name), Decision(**more))
        return json.loads(text) if text else None

    assert answer("BeforeTool") is None
    denied = {"decision": "deny", "reason": "No."}
    assert answer("BeforeTool", verdict="deny", reason="No.") == denied
    changed = answer("BeforeTool", verdict="allow", arguments={"command": "pwd"})
    specific = {"hookEventName": "BeforeTool", "tool_input": {"command": "pwd"}}
    assert changed == {"hookSpecificOutput": specific}
    blocked = {"decision": "block", "reason": "More."}
    assert answer("AfterAgent", verdict="block", reason="More.") == blocked
    said = answer("AfterTool", context="Run the tests.")
    assert said["hookSpecificOutput"]["additionalContext"] == "Run the tests."


def test_codex_never_asks_or_defers() -> None:
    made = Codex().read({"hook_event_name": "PreToolUse", **CALL}, NONE)
    assert (made.asks, made.defers, made.types) == (False, False, True)


def test_the_files_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/elsewhere/ann")
    monkeypatch.delenv("CODEX_HOME", raising=False)
    project = Path("/project")
    files = {
        (name, scope): str(agent.settings_file(scope, project))
        for name, agent in AGENTS.items()
        for scope in ("project", "user")
        if name != "claude-code" and (name, scope) != ("codex", "project")
    }
    assert files == {
        ("codex", "user"): "/elsewhere/ann/.codex/hooks.json",
        ("gemini", "project"): "/project/.gemini/settings.json",
        ("gemini", "user"): "/elsewhere/ann/.gemini/settings.json",
    }
    with pytest.raises(ConfigurationError, match="Use --user"):
        Codex().settings_file("project", project)


def test_a_probe_is_a_call_that_changes_nothing() -> None:
    for agent in AGENTS.values():
        probe = agent.read(agent.probe(Path("/project")), NONE)
        assert probe.kind == "before"
        assert agent.categories[probe.tool] == "read"


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        *(
            ("exit 3", "toolstile: exit code 3"),
            ("echo a; false # no", "toolstile: exit code 1"),
            ("echo a", None),
        ),
        ("cat <<E\nExit Code: 4\nE", None),
        ("printf 'toolstile: exit code 4\\n'; echo b", None),
        ("printf a; (exit 7)", "toolstile: exit code 7"),
    ],
)
def test_a_command_of_codex_tells_its_failure(line: str, failed: str | None) -> None:
    codex = Codex()
    words = ["bash", "-c", codex.noting("Bash", {"command": line})["command"]]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    about = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": "Bash"}
    event = codex.read({**about, "tool_response": done.stdout}, NONE)
    assert event.error == failed
    assert bool(done.returncode) == (failed is not None)
    assert codex.noting("apply_patch", {"patch": "x"}) == {"patch": "x"}


def test_a_command_of_gemini_runs_in_the_directory_that_it_names() -> None:
    given = {"command": "git status", "dir_path": "evil"}
    assert event("BeforeTool", tool_input=given, cwd="/project").folder == "/project/evil"
    assert event("BeforeTool", cwd="/project").folder == "/project"
