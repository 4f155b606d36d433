"""Claude Code, its hook, the client and the helper are killed in each phase of a call."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from executing.claude_model import PlayedModel, played
from tests.agents.test_hooks import Agent, bash
from tests.node import Npm
from tests.plugins.hook.hooked import Workspace
from tests.plugins.hook.killing import TARGETS
from tests.plugins.hook.test_chain_killed import PHASES, Rounds

from toolstile import ToolCall

pytestmark = [pytest.mark.slow, pytest.mark.agents]


class RoundsOfClaude(Rounds):
    """Calls of Claude Code in one workspace, each with a kill."""

    def __init__(self, agent: Agent, model: PlayedModel, marks: Path) -> None:
        super().__init__(agent.workspace, marks)
        self._agent, self._model = agent, model

    def start(self, line: str, *, fails: bool) -> subprocess.Popen[bytes]:
        marked = f"touch {self.marks}/command; {line.replace('exit 3', '')}"
        marked += f"\ntouch {self.marks}/after{'; exit 3' if fails else ''}"

        def reply(request: Any) -> Sequence[ToolCall] | str:
            is_first = not any(each["role"] == "assistant" for each in request["messages"])
            (self.marks / "before").touch()
            return [bash(f"c{time.time_ns()}", marked)] if is_first else "done"

        self._model.reply = reply
        return subprocess.Popen(
            self._agent.command(),
            cwd=self.workspace.folder,
            env=self._agent.environment(self._model.url),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def settle(self) -> None:
        super().settle()
        time.sleep(2)  # the helper sees by itself that the agent is gone


@pytest.mark.parametrize("target", TARGETS)
def test_in_each_phase(npm: Npm, hooked: Workspace, target: str, tmp_path: Path) -> None:
    assert hooked.command("hook", "install", "claude-code").returncode == 0
    with played(lambda _: "done") as model:
        rounds = RoundsOfClaude(Agent(npm, hooked), model, tmp_path / "marks")
        for phase in PHASES:
            rounds.play(target, phase)
    print(rounds.counts)  # noqa: T201 - the figures
    assert rounds.killed == len(PHASES)
