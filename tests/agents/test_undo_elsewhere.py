"""The agents' own undo of twelve files that commands edit, beside a person's edits, and ours."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.agents.providers import Step, gemini, played as played_gemini
from tests.agents.terminal import terminal
from tests.agents.test_hooks import PROMPT, Agent, bash
from tests.agents.test_other_hooks import GeminiAgent
from tests.agents.test_put_back import edit, lay_out, tree, undo
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

pytestmark = [pytest.mark.slow, pytest.mark.agents]

PAGE = Path(__file__).parents[2] / "docs/reference/coding-agents.md"
COMMANDS = (*FIRST_TURN, *SECOND_TURN)


def counted(folder: Path, before: dict[str, str]) -> tuple[int, int]:
    """Return how many files of the agent are back, and how many edits of the person are lost."""
    now = tree(folder)
    alone = [f"f{number}.{'json' if number > 10 else 'txt'}" for number in range(1, 13)]
    back = sum(now.get(name) == before[name] for name in alone if name not in EDITED)
    return back, sum("person" not in now.get(name, "") for name in (*EDITED, *OTHERS))


def meanwhile(folder: Path, done: int) -> None:
    """Edit as a person who works beside the agent, after some of its commands."""
    if done == len(FIRST_TURN):
        edit(folder, "f1.txt", "other1.txt")
    elif done == len(COMMANDS):
        edit(folder, "f7.txt", "f11.json", "other2.txt")


def row(name: str) -> tuple[int, int]:
    """Return the figures of a row of the page's table."""
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |")]
    _, _, back, lost, _ = (cell.strip() for cell in line.split("|"))
    return int(back.split()[0]), int(lost.split()[0])


def test_rewind_and_our_undo(npm: Npm, hooked: Workspace) -> None:
    folder = hooked.folder
    assert hooked.command("hook", "install", "claude-code").returncode == 0
    lay_out(folder)
    before, agent = tree(folder), Agent(npm, hooked)

    def reply(request: Any) -> Sequence[ToolCall] | str:
        done = sum(message["role"] == "assistant" for message in request["messages"])
        meanwhile(folder, done)
        return [bash(f"c{done}", COMMANDS[done])] if done < len(COMMANDS) else "all done"

    with agent.at_terminal(reply) as (shown, _):
        shown.say("go")
        shown.expect("all done")
        after = tree(folder)
        assert {path for path in before | after if before.get(path) != after.get(path)} == {
            *CHANGED,
            *OTHERS,
        }
        shown.say("/rewind")
        shown.expect("Restore the code and/or conversation")
        shown.press("Up", "Enter")
        assert "The code will be unchanged." in shown.expect("Restore conversation")
        shown.press("Enter")
        shown.expect(rf"{PROMPT}\sgo$")
        assert counted(folder, before) == row("Claude Code's `/rewind`") == (0, 0)
    assert tree(folder) == after

    status, lines = undo(agent, "--since", "1h", "--yes")
    assert status == 3
    assert {each["name"] for each in lines[-1]["conflicts"]} == {*EDITED}
    assert undo(agent, "--since", "1h", "--yes", "--keep-others")[0] == 0
    assert counted(folder, before) == row("`toolstile undo`") == (9, 0)


@pytest.mark.parametrize("edits", [False, True], ids=["commands", "and an edit"])
def test_restore(npm: Npm, hooked: Workspace, edits: bool) -> None:
    folder = hooked.folder
    lay_out(folder)
    before, agent = tree(folder), GeminiAgent(npm, hooked)
    agent.prepare()
    settings = json.loads(agent.settings.read_text())
    settings["general"]["checkpointing"] = {"enabled": True}
    settings["tools"] = {"allowed": ["run_shell_command"]}
    agent.settings.write_text(json.dumps(settings))
    write = {"file_path": f"{folder}/new.txt", "content": "new"}
    first: list[Step] = [{"name": "write_file", "arguments": write}] if edits else []
    steps = [*first, *map(agent.shell, COMMANDS)]

    def reply(results: list[str]) -> Step | None:
        meanwhile(folder, len(results) - len(first))
        return steps[len(results)] if len(results) < len(steps) else None

    with played_gemini(reply, gemini) as model:
        command, more = agent.command(model.url)
        words = [word for word in command if word not in {"--yolo", "-p", "go"}]
        with terminal(folder, words, {**agent.environment, **more}) as shown:
            shown.expect("Type your message")
            shown.say("go")
            # It asks about the edit, and about each command with a redirection.
            while "✦ done" not in shown.expect("✦ done|● 1. Allow once"):
                shown.press("Enter")
                time.sleep(1)
            kept = [*(agent.workspace.home / ".gemini").glob("tmp/*/checkpoints/*.json")]
            if edits:
                shown.say(f"/restore {kept[0].stem}")
                shown.expect("Restored project to the state before")
                figures, name = (9, 5), "Gemini's `/restore`, after an edit that it asked about"
            else:
                shown.say("/restore")
                shown.expect("No restorable tool calls found")
                figures, name = (0, 0), "Gemini's `/restore`"
            assert counted(folder, before) == row(name) == figures
