"""An agent, its hook, the client and the helper are killed at any instant around a call.

The agent is played; all the others are as they are installed. A call's changes stay or go as a
whole, and nothing else changes.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.hook.agent_desk import tree_of
from tests.plugins.hook.hooked import Workspace
from tests.plugins.hook.killed_driver import command, lay_out, shown_in
from tests.plugins.hook.killing import TARGETS, kill, processes

from toolstile_plugins.hook.agents import ClaudeCode
from toolstile_plugins.hook.install import command_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]
PHASES = ("before", "command", "after")
# As Claude Code, it runs the tool whatever becomes of the hook, but for a refusal.
AGENT = """\
import json, os, subprocess, sys
from pathlib import Path
before, after, end, command, marks = json.loads(sys.argv[1])
os.environ["CLAUDE_PID"] = str(os.getpid())
Path(marks, "before").touch()
def send(hook, event):
    words = ["sh", "-c", hook]
    return subprocess.run(words, input=json.dumps(event), text=True, capture_output=True)
done = send(before, {**end, "hook_event_name": "PreToolUse"})
if done.returncode != 2 and '"deny"' not in done.stdout:
    Path(marks, "command").touch()
    subprocess.run(["bash", "-c", command], env={**os.environ, "CLAUDECODE": "1"})
    Path(marks, "after").touch()
    send(after, end)
"""


class Rounds:
    """Calls in one workspace, each with a kill; a number in its files tells which have counted."""

    def __init__(self, workspace: Workspace, marks: Path) -> None:
        self.workspace, self.marks = workspace, marks
        marks.mkdir()
        lay_out(self._sh)
        self.counts = {"kept": 0, "gone": 0, "not run": 0}
        self.killed = 0
        self._former = self._number = 0

    def _sh(self, line: str) -> None:
        words = f"git init -q . ; git config user.name a; git config user.email a@b.c; {line}"
        folder = self.workspace.folder
        subprocess.run(["bash", "-c", words], cwd=folder, check=True, capture_output=True)

    def play(self, target: str, phase: str, delay: float = 0) -> None:
        """Make a call, kill a target in a phase, and check the files."""
        workspace, number = self.workspace, self._number + 1
        self._number = number
        for name in PHASES:
            (self.marks / name).unlink(missing_ok=True)
        for name in ("person.txt", "mine.log"):
            (workspace.folder / name).write_text(f"{number}\n")
        fails = bool(number % 4)
        line = command(number, self._former) + ("exit 3" if fails else "")
        agent = self.start(line, fails=fails)
        began = time.monotonic()

        def has_come() -> bool:
            return (self.marks / phase).exists() and time.monotonic() - began >= delay

        self.killed += kill(workspace, target, agent.pid, has_come)
        agent.wait(timeout=60)
        while any(each != workspace.helper for each, _ in processes(workspace)):
            time.sleep(0.01)  # a command lives on without its agent
        self.settle()
        self._check(number, target, phase)

    def settle(self) -> None:
        """Let the helper know that the agent has ended; another helper finishes the work of one."""
        self.workspace.decision(self.workspace.event("SessionEnd"))

    def start(self, line: str, *, fails: bool) -> subprocess.Popen[bytes]:
        """Start an agent that runs a command."""
        name = "PostToolUseFailure" if fails else "PostToolUse"
        more: dict[str, Any] = {"error": "Exit code 3"} if fails else {"tool_response": {}}
        end = self.workspace.event(name, "Bash", arguments={"command": "x"}, **more)
        hooks = [command_for(ClaudeCode(), refuses=refuses) for refuses in (True, False)]
        given = json.dumps([*hooks, end, line, str(self.marks)])
        return subprocess.Popen(
            [sys.executable, "-c", AGENT, given],
            cwd=self.workspace.folder,
            env=self.workspace.environment,
        )

    def _check(self, number: int, target: str, phase: str) -> None:
        folder, has_run = self.workspace.folder, (self.marks / "command").exists()
        seen = {path: state for path, state in tree_of(folder).items() if ".claude" not in path}
        shown = shown_in(seen, {self._former, number} if has_run else {self._former})
        for name in ("person.txt", "mine.log"):
            assert (folder / name).read_text() == f"{number}\n", (target, phase)
        kind = "kept" if shown == number else "gone" if has_run else "not run"
        self.counts[kind] += 1
        self._former = shown


@pytest.fixture
def rounds(hooked: Workspace, tmp_path: Path) -> Rounds:
    return Rounds(hooked, tmp_path / "marks")


def test_in_each_phase(rounds: Rounds) -> None:
    for phase in PHASES:
        for target in TARGETS:
            rounds.play(target, phase)
    assert rounds.killed == len(PHASES) * len(TARGETS)


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 10))]


@pytest.mark.parametrize("seed", SEEDS)
def test_at_twenty_random_instants(rounds: Rounds, seed: int) -> None:
    chance = random.Random(seed)
    longest = dict.fromkeys(TARGETS, 0.5)
    while (before := rounds.killed) < 20:
        target = chance.choice(TARGETS)
        rounds.play(target, "before", chance.uniform(0, longest[target]))
        # As a machine is fast or slow, the instants become the time of a call there.
        longest[target] *= 1.1 if rounds.killed > before else 0.9
    print(rounds.counts)  # noqa: T201 - the figures
