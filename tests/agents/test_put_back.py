"""Claude Code with our hook: its changes go back after a failure, and are undone at a terminal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from executing.claude_model import Reply
from tests.node import Npm
from tests.plugins.hook.hooked import Workspace
from tests.plugins.hook.test_undo_of_commands import (
    CHANGED,
    EDITED,
    FIRST_TURN,
    OTHERS,
    SECOND_TURN,
)

from toolstile import ToolCall

from .test_hooks import Agent, bash

pytestmark = [pytest.mark.slow, pytest.mark.agents]


@pytest.fixture
def agent(npm: Npm, hooked: Workspace) -> Agent:
    """Claude Code in a repository, without a configuration."""
    done = hooked.command("hook", "install", "claude-code")
    assert done.returncode == 0, done
    lay_out(hooked.folder)
    return Agent(npm, hooked)


def lay_out(folder: Path) -> None:
    """Make a repository with the twelve files of an agent and two others."""
    for number in range(1, 11):
        (folder / f"f{number}.txt").write_text("one\n")
    for name in ("f11.json", "f12.json"):
        (folder / name).write_text('{"a": [1, 2]}')
    for name in OTHERS:
        (folder / name).write_text("other\n")
    words = "git init -q . && git config user.name a && git config user.email a@b.c"
    words += " && git add . && git commit -qm first"
    subprocess.run(["sh", "-c", words], cwd=folder, check=True)


def tree(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/", maxsplit=1)[0] in {".git", ".toolstile", ".claude", ".gemini"}:
            continue
        content = repr(path.read_bytes()) if path.is_file() else "/"
        found[name] = f"{path.lstat().st_mode & 0o777:o} {content}"
    return found


def edit(folder: Path, *names: str) -> None:
    for name in names:
        with (folder / name).open("a") as stream:
            stream.write("person\n")


def playing(name: str, commands: Sequence[str], before: int) -> Reply:
    """Return a model that runs commands in a session which has some answers before."""

    def reply(request: Any) -> Sequence[ToolCall] | str:
        turn = sum(message["role"] == "assistant" for message in request["messages"]) - before
        return [bash(f"{name}{turn}", commands[turn])] if turn < len(commands) else "done"

    return reply


def undo(agent: Agent, *words: str) -> tuple[int, list[dict[str, Any]]]:
    done = agent.workspace.person("undo", "--json", *words)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_agents_changes_go_and_the_persons_stay(agent: Agent) -> None:
    folder = agent.workspace.folder
    before = tree(folder)
    agent.run(playing("a", FIRST_TURN, 0))
    edit(folder, "f1.txt", "other1.txt")
    # The helper of the first turn may have ended; the session goes on.
    agent.workspace.kill()
    second = playing("b", SECOND_TURN, len(FIRST_TURN) + 1)
    agent.run(second, "--resume", agent.result["session_id"], "go on")
    edit(folder, "f7.txt", "f11.json", "other2.txt")
    after = tree(folder)
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert changed == {*CHANGED, *OTHERS}
    turn = {"f6.txt", "f8.txt", "f9.txt", "f10.txt", "sub", "sub/f9.txt", "sub/f10.txt", "f12.json"}
    for way, back, conflicts in (
        (["--last"], {"f12.json"}, {"f11.json"}),
        (["--turn"], turn, {"f7.txt", "f11.json"}),
        (["--since", "1h"], CHANGED - {*EDITED}, {*EDITED}),
    ):
        status, lines = undo(agent, *way, "--yes")
        assert status == 3, lines
        assert {each["name"] for each in lines[-1]["conflicts"]} == conflicts
        assert tree(folder) == after
        assert undo(agent, *way, "--yes", "--keep-others")[0] == 0
        now = tree(folder)
        assert {path for path in after | now if after.get(path) != now.get(path)} == back
        assert all(now.get(path) == before.get(path) for path in back)
        assert all("person" in now[path] for path in (*EDITED, *OTHERS))
        (last, *_) = undo(agent, "--list")[1]
        assert undo(agent, last["id"], "--yes")[0] == 0
        assert tree(folder) == after


def test_a_failed_command_goes_back_and_edits_around_it_stay(agent: Agent) -> None:
    folder = agent.workspace.folder
    read: dict[str, Any] = {}

    def reply(request: Any) -> Sequence[ToolCall] | str:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        if turn == 0:
            edit(folder, "f1.txt")
            return [bash("fails", "echo agent > f2.txt; echo agent > new.txt; exit 3")]
        if turn == 1:
            edit(folder, "f3.txt")
            read["seen"] = json.dumps(request["messages"])
            write = {"file_path": f"{folder}/f4.txt", "content": "agent\n"}
            calls = [ToolCall("Read", {"file_path": write["file_path"]}, id="toolu_r")]
            return [*calls, bash("behind", "sleep 2; echo late > f5.txt", run_in_background=True)]
        return "done"

    agent.run(reply)

    now = tree(folder)
    assert "went back to the state before the call" in read["seen"]
    assert "f2.txt, new.txt went back" in read["seen"]
    assert "new.txt" not in now
    assert now["f2.txt"] == "644 b'one\\n'"
    assert now["f1.txt"] == now["f3.txt"] == "644 b'one\\nperson\\n'"


def test_a_process_that_lives_on_keeps_the_changes(agent: Agent) -> None:
    folder = agent.workspace.folder
    command = "echo agent > f2.txt; (sleep 8; echo late >> f2.txt) >/dev/null 2>&1 & exit 3"

    model = agent.run([[bash("fails", command)]])

    assert (folder / "f2.txt").read_text() == "agent\n"
    assert "a process of the command still runs" in json.dumps(model.requests)
