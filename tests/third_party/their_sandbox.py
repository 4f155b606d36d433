"""A stranger's sandbox: it runs programs in a directory that it lays out by itself."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from toolstile_hookspecs import (
    Filesystem,
    MarkdownSection,
    SupportsWatch,
    ToolContext,
    ToolResult,
    tool,
)


@dataclass(frozen=True, slots=True)
class Ran:
    """The end of a command."""

    code: int
    output: str

    def render(self) -> str:
        return f"exit {self.code}\n{self.output}"


@tool(contained=True, timeout=60)
def shell(command: str, *, context: ToolContext) -> ToolResult[Ran]:
    """Run a command on a copy of the workspace; its changes are the call's."""
    files = context.filesystem
    if not isinstance(files, SupportsWatch):
        return ToolResult.error("Commands need a workspace that can be watched. Configure one.")
    # First: whatever the command reads from here on, no commit has changed it unnoticed.
    files.watch()
    with tempfile.TemporaryDirectory() as folder:
        before = _lay_out(files, Path(folder))
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False
        )
        _harvest(files, Path(folder), before)
    ran = Ran(done.returncode, done.stdout + done.stderr)
    return ToolResult.ok(ran) if ran.code == 0 else ToolResult.error(ran.render())


def _lay_out(files: Filesystem, folder: Path) -> dict[str, bytes]:
    laid: dict[str, bytes] = {}
    for found in files.glob("**"):
        target = folder / found.path
        if found.kind == "directory":
            target.mkdir(parents=True, exist_ok=True)
        elif found.kind == "file":
            target.parent.mkdir(parents=True, exist_ok=True)
            laid[found.path] = files.read_bytes(found.path)
            target.write_bytes(laid[found.path])
    return laid


def _harvest(files: Filesystem, folder: Path, before: dict[str, bytes]) -> None:
    after = {
        each.relative_to(folder).as_posix(): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file()
    }
    for path in before.keys() - after.keys():
        files.delete(path)
    for path, content in after.items():
        if before.get(path) != content:
            files.write_bytes(path, content)


def section() -> MarkdownSection:
    """Return the section that offers the shell."""
    return MarkdownSection(key="their_shell", title="Shell", tools=[shell])
