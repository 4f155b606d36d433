"""Desks: hosts with `[plugins.undo]` over a workspace on disk, and tools that change it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolstile import Binding, Host, ToolCall, ToolContext, tool
from toolstile_hookspecs import Filesystem
from toolstile_plugins.vfs import VirtualFilesystem


@dataclass(frozen=True)
class Line:
    """An item of a slice."""

    text: str


@tool(category="write", contained=True)
def add_line(text: str, *, context: ToolContext) -> str:
    """Add a line to the session."""
    context.session[Line].append(Line(text))
    return "Added."


@tool(category="write", contained=True)
def set_lines(texts: list[str], *, context: ToolContext) -> str:
    """Replace the lines of the session."""
    context.session[Line].replace(*map(Line, texts))
    return "Set."


@tool(category="write", contained=True)
def change_files(*, context: ToolContext) -> str:
    """Make each kind of change to files that a call can make."""
    files: Any = context.filesystem
    files.write("changed.txt", "new\n")
    files.delete("gone.txt")
    files.move("moved.txt", "sub/moved.txt")
    files.chmod("script.sh", 0o755)
    files.delete("link")
    files.link("link", "gone.txt")
    files.delete("folder", recursive=True)
    files.write("folder", "a file in place of a directory\n")
    files.write("made/new.txt", "new\n")
    files.link("made/link", "new.txt")
    files.chmod("closed", 0o700)
    return "Changed."


@tool(category="write", contained=True)
def write_both(path: str, text: str, *, context: ToolContext) -> str:
    """Write a file, and add its text to the session."""
    context.filesystem.write(path, text)  # type: ignore[union-attr]
    context.session[Line].append(Line(text))
    return "Written."


TOOLS = [add_line, set_lines, change_files, write_both]


@dataclass
class Desk:
    """A host with a workspace, and the calls to it.

    Args:
        folder: The directory of the configuration.
        host: The open host.
    """

    folder: Path
    host: Host

    def __post_init__(self) -> None:
        self.tools = self.host.executor(session_id="desk")
        self.root = self.folder / "work"
        self.store = self.folder / "undo"

    def call(self, name: str, **arguments: Any) -> str:
        """Make a call that succeeds, and return its id."""
        outcome = self.tools.dispatch(ToolCall(name, arguments))
        assert outcome.success, outcome.text
        return outcome.call.id

    def undo(self, *calls: str, **options: Any) -> str:
        """Undo calls, and return the id of the undo."""
        outcome = self.tools.undo(*calls, **options)
        assert outcome.success, outcome.text
        return outcome.call.id

    @property
    def lines(self) -> list[str]:
        return [line.text for line in self.tools.session[Line].all()]

    def tree(self) -> dict[str, str]:
        """Return the kinds, modes and contents of all paths of the workspace."""
        return tree_of(self.root)


def bound(files: VirtualFilesystem) -> Binding[Filesystem]:
    """Return a binding of a workspace for tools."""
    return Binding[Filesystem].instance(Filesystem, files)  # type: ignore[type-abstract]


def tree_of(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.partition("/")[0] == ".toolstile":
            continue
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[name] = f"{path.stat().st_mode & 0o777:o}"
        else:
            found[name] = f"{path.stat().st_mode & 0o777:o} {path.read_bytes()!r}"
    return found


CONFIGURATION = """\
durability = "process"
[plugins.vfs]
root = "{folder}/work"
confirm_deletes = false
[plugins.undo]
path = "{folder}/undo"
"""
STORED = '[plugins.sessions]\npath = "{folder}/sessions.db"\n'
