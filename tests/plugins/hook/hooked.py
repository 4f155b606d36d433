"""A workspace with a hook: its command is run as an agent runs it, on events as an agent writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from toolstile_plugins.hook.agents import ClaudeCode
from toolstile_plugins.hook.client import folder_of
from toolstile_plugins.hook.install import command_for

RULES = """\
[[policies]]
kind = "rule"
effect = "deny"
tools = [{tools}]
when = '"{deletes}" in words(args.command)'
reason = "Deletions are for the user."

[[policies]]
kind = "rule"
effect = "ask"
tools = [{tools}]
when = '"push" in words(args.command)'
reason = "A push is for the user."

[plugins.hook]
protected = ["**/.env"]

[plugins.inbox]
path = "{state}/inbox.db"

[plugins.record]
file = "{state}/calls.jsonl"
"""

_ids = count()


@dataclass
class Workspace:
    """A workspace, an empty home and a folder for state, which no other test shares."""

    folder: Path
    state: Path
    home: Path
    entry: str = "sdk-cli"
    more: dict[str, str] = field(default_factory=dict[str, str])
    inside: Sequence[str] = ()
    """The words before each command, which run it in a namespace."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "PATH") if name in os.environ}
        own = {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.state),
            "CLAUDE_PROJECT_DIR": str(self.folder),
            "CLAUDE_CODE_ENTRYPOINT": self.entry,
        }
        return {**kept, **own, **self.more}

    @property
    def toolstile(self) -> str:
        """The program, as a line of a shell."""
        return f"{sys.executable} -m toolstile"

    def configure(self, text: str) -> None:
        (self.folder / "toolstile.toml").write_text(text)

    def rules(self, tools: str = '"Bash"', deletes: str = "rm") -> str:
        """Return a configuration that denies a word in commands, asks about pushes, and records."""
        return RULES.format(tools=tools, deletes=deletes, state=self.state)

    def recorded(self) -> list[tuple[str, str]]:
        """Return the tool and the status of each recorded call."""
        file = self.state / "calls.jsonl"
        lines = map(json.loads, file.read_text().splitlines() if file.exists() else ())
        calls = [line for line in lines if line["kind"] == "call"]
        return [(call["envelope"]["tool"], call["status"]) for call in calls]

    def agents_environment(self, path: str, **more: str) -> dict[str, str]:
        """Return the environment of an agent that finds its programs by a path."""
        return {"HOME": str(self.home), "XDG_STATE_HOME": str(self.state), "PATH": path, **more}

    def run_agent(self, command: Sequence[str], environment: Mapping[str, str]) -> str:
        """Run an agent without a terminal until it ends, and return its output."""
        done = subprocess.run(
            [*self.inside, *command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    def event(self, name: str, tool: str = "", **more: Any) -> dict[str, Any]:
        """Return an event of Claude Code; `arguments` are the tool's."""
        call: dict[str, Any] = {}
        if tool:
            id_ = more.pop("id", None) or f"toolu_{next(_ids)}"
            call = {"tool_name": tool, "tool_input": more.pop("arguments"), "tool_use_id": id_}
        common = {"hook_event_name": name, "session_id": "s1", "cwd": str(self.folder)}
        return {**common, **call, **more}

    def send(self, event: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run the installed command on an event."""
        refuses = event["hook_event_name"] in {"PreToolUse", "ConfigChange"}
        return subprocess.run(
            ["sh", "-c", command_for(ClaudeCode(), refuses=refuses)],
            input=json.dumps(event),
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def decision(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to an event, without its name; empty if there is none."""
        done = self.send(event)
        assert done.returncode == 0, done
        answer = json.loads(done.stdout) if done.stdout else {}
        answer = answer.get("hookSpecificOutput", answer)
        answer.pop("hookEventName", None)
        return answer

    def bash(self, command: str, **more: Any) -> dict[str, Any]:
        """Return the decision on a command."""
        return self.decision(
            self.event("PreToolUse", "Bash", arguments={"command": command}, **more)
        )

    def command(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run `toolstile` in the workspace."""
        return subprocess.run(
            [*self.inside, sys.executable, "-m", "toolstile", *words],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **more,
        )

    def person(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `toolstile` at a terminal in the workspace."""
        code = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
            "os.execvp(sys.argv[1], sys.argv[1:])"
        )
        own = [*self.inside, sys.executable, "-m", "toolstile"]
        master, slave = os.openpty()
        try:
            return subprocess.run(
                [sys.executable, "-c", code, *own, *words],
                env=self.environment,
                cwd=self.folder,
                stdin=slave,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                start_new_session=True,
            )
        finally:
            os.close(master)
            os.close(slave)

    @property
    def helper(self) -> int | None:
        """The process of the helper, if one runs."""
        os.environ["XDG_STATE_HOME"], before = str(self.state), os.environ.get("XDG_STATE_HOME")
        try:
            lock = Path(folder_of(str(self.folder)), "lock")
        finally:
            os.environ.pop("XDG_STATE_HOME")
            if before is not None:
                os.environ["XDG_STATE_HOME"] = before
        with suppress(OSError, ValueError):
            process = int(lock.read_text())
            os.kill(process, 0)
            return process
        return None

    def kill(self) -> None:
        """Kill the helper, if one runs."""
        if (process := self.helper) is not None:
            os.kill(process, signal.SIGKILL)
            until = time.monotonic() + 10
            while self.helper is not None and time.monotonic() < until:
                time.sleep(0.01)
