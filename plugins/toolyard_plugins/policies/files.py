"""No file is overwritten that was not read as it is now."""

from __future__ import annotations

import hashlib
import os
import posixpath
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from toolyard_hookspecs import PolicyDecision, PolicyState, Tool, ToolContext, ToolResult

WORKSPACE: Final = "/workspace"
CHUNK: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ReadBeforeWritePolicy:
    """Lets an existing file be changed only by who has read its present content.

    New files can be created freely. A file is known by its content: one that has changed
    since it was read must be read again, and a successful write of one's own counts as
    reading. Deleting counts as writing, and so does moving or copying onto a file.

    Args:
        read_tools: Tools that show a file's content.
        write_tools: Tools that change, replace or remove a file.
        path_fields: Where the path is: the first of these fields that the params have.
        root: The directory that paths are relative to, for tools that do not use the
            workspace; its files are then hashed directly.
        name: The instance's name; made of kind, place and position if not given.
    """

    read_tools: frozenset[str] = frozenset({"read_file"})
    write_tools: frozenset[str] = frozenset(
        {"write_file", "edit_file", "delete_file", "copy_file", "move_file"}
    )
    path_fields: tuple[str, ...] = ("target", "destination", "path", "file_path")
    root: Path | None = None
    name: str = ""

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny a change of a file whose present content was not read."""
        path = self._path(tool, params, self.write_tools)
        if path is None:
            return PolicyDecision.allow()
        now = self._digest(path, context)
        if now is None:
            return PolicyDecision.allow()
        known = PolicyState.of(context, self.name).data.get(path)
        if known == now:
            return PolicyDecision.allow()
        reader = " or ".join(sorted(self.read_tools))
        what = "has changed since it was read" if known else "exists and was not read"
        return PolicyDecision.deny(
            f"Cannot call {tool.name} on {path}: the file {what}. Call {reader} on it first, "
            f"then retry {tool.name}."
        )

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the content that was read or written."""
        if not result.success:
            return
        path = self._path(tool, params, self.read_tools | self.write_tools)
        if path is None:
            return
        state = PolicyState.of(context, self.name)
        data = {known: digest for known, digest in state.data.items() if known != path}
        now = self._digest(path, context)
        if now is not None:
            data[path] = now
        if data != state.data:
            replace(state, data=data).save(context)

    def _path(self, tool: Tool[Any, Any], params: Any, tools: frozenset[str]) -> str | None:
        if tool.name not in tools and tool.wire_name not in tools:
            return None
        for field in self.path_fields:
            path = _field(params, field)
            if isinstance(path, str):
                return self._canonical(path)
        return None

    def _canonical(self, path: str) -> str:
        if self.root is not None:
            root = os.path.realpath(self.root)
            return os.path.relpath(os.path.realpath(Path(root, path)), root)
        if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
            path = path.removeprefix(WORKSPACE).lstrip("/")
        return posixpath.normpath(path or ".")

    def _digest(self, path: str, context: ToolContext) -> str | None:
        """Return the hash of a file's content, None where there is no file."""
        if self.root is not None:
            return _digest_of(self.root / path)
        files = context.filesystem
        try:
            if files is None or files.stat(path).kind != "file":
                return None
            return hashlib.sha256(files.read_bytes(path)).hexdigest()
        except (OSError, ValueError):
            return None


def _digest_of(path: Path) -> str | None:
    if not path.is_file():
        return None
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _field(params: Any, name: str) -> object:
    if isinstance(params, dict):
        return params.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - anybody's
    return getattr(params, name, None)
