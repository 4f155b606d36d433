"""The tools that copy and move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolstile_hookspecs import Filesystem, Tool, ToolContext, ToolExample, ToolResult
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.tools.checks import Checks, explaining, shown, workspace
from toolstile_plugins.vfs.tools.params import CopyFile, MoveFile
from toolstile_plugins.vfs.tools.results import Transferred
from toolstile_plugins.vfs.tools.write import count_files


@dataclass(frozen=True)
class Transferring:
    """The handlers, with their limits.

    Args:
        config: The limits.
    """

    config: VfsConfig

    def copy_file(self, params: CopyFile, *, context: ToolContext) -> ToolResult[Transferred]:
        """Copy a file or a directory."""
        files, what = workspace(context), _what("copy", params)
        with explaining(what):
            checks = Checks(files, what)
            self._check(files, checks, params)
            checks.pass_or_refuse()
            copied = count_files(files, params.source)
            files.copy(params.source, params.target, overwrite=params.overwrite)
        return _told("Copied", params, copied)

    def move_file(self, params: MoveFile, *, context: ToolContext) -> ToolResult[Transferred]:
        """Move a file or a directory."""
        files, what = workspace(context), _what("move", params)
        with explaining(what):
            checks = Checks(files, what)
            self._check(files, checks, params)
            checks.writable(params.source)
            checks.pass_or_refuse()
            moved = count_files(files, params.source)
            files.move(params.source, params.target, overwrite=params.overwrite)
        return _told("Moved", params, moved)

    def _check(self, files: Filesystem, checks: Checks, params: CopyFile | MoveFile) -> None:
        stat = checks.existing(params.source)
        there = checks.target(params.target, overwrite=params.overwrite)
        checks.writable(params.target)
        if stat is None:
            return
        if stat.kind == "directory":
            if there is not None and there.kind == "file":
                checks.add(
                    f"{shown(params.source)} is a directory and {shown(params.target)} a file. "
                    "Choose another target."
                )
        elif there is not None and files.stat(params.source).path == there.path:
            checks.add("source and target are the same file. Choose another target.")
        checks.size(
            params.source,
            stat.size,
            self.config.max_file_size,
            "Such a file cannot be copied or moved with this tool.",
        )


def _what(verb: str, params: CopyFile | MoveFile) -> str:
    return f"Cannot {verb} {shown(params.source)} to {shown(params.target)}"


def _told(done: str, params: CopyFile | MoveFile, files: int) -> ToolResult[Transferred]:
    extent = "" if files == 1 else f" ({counted(files, 'file')})"
    return ToolResult.ok(
        Transferred(params.source, params.target, files),
        message=f"{done} {shown(params.source)} to {shown(params.target)}{extent}.",
    )


def transferring_tools(config: VfsConfig) -> tuple[Tool[Any, Any], ...]:
    """Return the tools that copy and move."""
    transferring = Transferring(config)
    return (
        Tool[CopyFile, Transferred](
            name="copy_file",
            description="Copy a file or a directory to a path that is free; overwrite=true "
            "replaces a file that was read before.",
            handler=transferring.copy_file,
            category="write",
            consequence="medium",
            contained=True,
            tags=("files",),
            examples=(
                ToolExample(
                    "Copy a file",
                    CopyFile("config/app.ini", "config/app.old.ini"),
                    Transferred("config/app.ini", "config/app.old.ini", 1),
                ),
            ),
        ),
        Tool[MoveFile, Transferred](
            name="move_file",
            description="Move or rename a file or a directory; overwrite=true replaces a file that "
            "was read before.",
            handler=transferring.move_file,
            category="write",
            consequence="medium",
            contained=True,
            tags=("files",),
            examples=(
                ToolExample(
                    "Rename a directory with three files",
                    MoveFile("doc", "docs"),
                    Transferred("doc", "docs", 3),
                ),
            ),
        ),
    )
