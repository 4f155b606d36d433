"""A workspace in which an agent's tools run between two events of a hook, without the agent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from toolstile import ForeignTool, Host, Outcome, Tool, ToolCall, ToolContext, ToolError
from toolstile_plugins.hook.watch import FILES, WatchedFiles
from toolstile_plugins.undo import UndoSettings, UndoStore

ANY = {"type": "object"}
BASH = ForeignTool("Bash", "Run a command.", ANY, category="side_effect")
WRITE = ForeignTool("Write", "Write a file.", ANY, category="write")
READ = ForeignTool("Read", "Read a file.", ANY, category="read")
Meanwhile = Callable[[], object]


class Failed(ToolError):
    """The agent has reported that its tool failed."""


def reach(tool: Tool[Any, Any], context: ToolContext) -> Sequence[str] | None:
    """Return the paths that a call names."""
    if tool.name == "read":
        raise LookupError
    assert context.tool_call is not None
    arguments: Any = context.tool_call.arguments
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return None if tool.name == "bash" else [arguments["file_path"]]


class AgentDesk:
    """A host whose calls are an agent's, over a workspace."""

    def __init__(self, folder: Path, *, git: bool = True, **options: Any) -> None:
        self.root = folder / "work"
        self.root.mkdir(exist_ok=True)
        self.undo = folder / "undo"
        if git and not (self.root / ".git").exists():
            self.sh("git init -q . && git config user.name a && git config user.email a@b.c")
        self.host = Host(tools=[BASH, WRITE, READ])
        self.host.configure(
            {"plugins.undo": {"path": str(self.undo)}, "plugins.vfs": {"root": str(self.root)}}
        )
        self.host.open()
        settings = UndoSettings(path=self.undo)
        options = {"patience": 0.1, **options}
        state = folder / "state"
        self.files = WatchedFiles(self.root, state, UndoStore(settings), reach, **options)
        self.host.register(self.files, "hook_files")
        self.tools = self.host.executor()
        self.tools.__enter__()

    def close(self) -> None:
        self.tools.close()
        self.files.close()
        self.host.close()

    def sh(self, command: str) -> None:
        """Run a command by hand."""
        subprocess.run(["bash", "-c", command], cwd=self.root, check=True, capture_output=True)

    def bash(self, command: str, meanwhile: Meanwhile = lambda: None) -> Outcome:
        """Run a command as an agent does, which reports its end."""

        def run(arguments: dict[str, Any], context: ToolContext) -> str:
            done = subprocess.run(
                ["bash", "-c", arguments["command"]],
                cwd=self.root,
                check=False,
                capture_output=True,
                text=True,
                env={**os.environ, "CLAUDECODE": "1"},
            )
            meanwhile()
            assert context.tool_call is not None
            self.files.ended(context.tool_call.id, failed=bool(done.returncode))
            if done.returncode:
                raise Failed(f"Exit code {done.returncode}\n{done.stderr}")
            return done.stdout

        return self.tools.dispatch(ToolCall("Bash", {"command": command}), using=run)

    def write(self, path: str | Path, text: str, *, fails: bool = False) -> Outcome:
        """Write a file as an agent does."""

        def run(arguments: dict[str, Any], context: ToolContext) -> str:
            target = self.root / arguments["file_path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            assert context.tool_call is not None
            self.files.ended(context.tool_call.id)
            if fails:
                raise Failed("The file was not written.")
            return "written"

        return self.tools.dispatch(ToolCall("Write", {"file_path": str(path)}), using=run)

    def tree(self) -> dict[str, str]:
        return tree_of(self.root)


def tree_of(root: Path) -> dict[str, str]:
    """Return the state of each path, without git's and the workspace's own."""
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.split("/", maxsplit=1)[0] in {".git", ".toolstile"}:
            continue
        mode = f"{path.lstat().st_mode & 0o777:o}"
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[name] = f"{mode}/"
        else:
            found[name] = f"{mode} {path.read_bytes()!r}"
    return found


def told(outcome: Outcome) -> str:
    """Return the report of what was put back."""
    return str(outcome.event.attributes.get(FILES, ""))
