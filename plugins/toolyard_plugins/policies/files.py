"""No file is overwritten that was not read as it is now."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeGuard, cast

from toolyard_hookspecs import (
    ConflictError,
    PolicyDecision,
    PolicyState,
    Tool,
    ToolContext,
    ToolResult,
)
from toolyard_plugins.policies.naming import is_among

WORKSPACE: Final = "/workspace"
CHUNK: Final = 1 << 20
NO_SUCH_FILE: Final = (FileNotFoundError, NotADirectoryError, PermissionError, ValueError)
"""What a workspace raises where there is no file, and for paths that it refuses anyway."""


@dataclass(frozen=True, kw_only=True)
class ReadBeforeWritePolicy:
    """Lets an existing file be changed only by who has read its present content.

    New files can be created freely. A file is known by its content: one that has changed
    since it was read must be read again, and a successful write of one's own counts as
    reading. Deleting counts as writing, and so does moving or copying onto a file; what
    was moved or copied counts as read where the original did.

    Args:
        read_tools: Tools that show a file's content.
        write_tools: Tools that change, replace or remove a file.
        path_fields: Where the path is: the first of these fields that the params have.
        source_fields: Where the path is that a tool moves or copies from.
        paths: For single tools, all the fields that hold a path they show or change, where
            `path_fields` does not say it: `{"rename": ("old", "new")}`. A field may hold a
            list of paths.
        root: The directory that paths are relative to, for tools that do not use the
            workspace; its files are then hashed directly.
        name: The instance's name; made of kind, place and position if not given.
    """

    read_tools: AbstractSet[str] = frozenset({"read_file"})
    write_tools: AbstractSet[str] = frozenset(
        {"write_file", "edit_file", "delete_file", "copy_file", "move_file"}
    )
    path_fields: tuple[str, ...] = ("target", "destination", "path", "file_path")
    source_fields: tuple[str, ...] = ("source", "path", "file_path")
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    root: Path | None = None
    name: str = ""

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny a change of files whose present content was not read, naming all of them."""
        if not is_among(tool, self.write_tools):
            return PolicyDecision.allow()
        fields = self._fields(tool, params)
        faults = [
            fault
            for path in self._paths(params, fields)
            if (fault := self._fault(path, context)) is not None
        ]
        if not faults:
            return PolicyDecision.allow()
        readers = " or ".join(sorted(self.read_tools))
        each = "each of them" if len(faults) > 1 else "it"
        return PolicyDecision.deny(
            f"Cannot call {tool.name}: {'; '.join(faults)}. Call {readers} on {each} first, "
            f"then retry {tool.name}."
        )

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the contents that were read or written."""
        writes = is_among(tool, self.write_tools)
        if not writes and not is_among(tool, self.read_tools):
            return
        fields = self._fields(tool, params)
        now = {path: self._settled(path, context) for path in self._paths(params, fields)}
        if not now:
            return
        state = PolicyState.of(context, self.name)
        if writes:
            sources = [each for each in self.source_fields if each not in fields]
            now |= self._carried(self._paths(params, sources[:1]), now, state, context)
        if all(state.data.get(path) == digest for path, digest in now.items()):
            return
        data = {**state.data, **now}
        for path, digest in now.items():
            if digest is None:
                del data[path]
        replace(state, data=data).save(context)

    def _carried(
        self,
        sources: list[str],
        now: Mapping[str, str | None],
        state: PolicyState,
        context: ToolContext,
    ) -> dict[str, str | None]:
        """Return what is known after a move or copy: of the target what was of the source."""
        changed: dict[str, str | None] = {}
        for source in sources:
            known = state.data.get(source)
            changed = {path: digest if digest == known else None for path, digest in now.items()}
            if self._settled(source, context) is None:
                changed[source] = None
        return changed

    def _fault(self, path: str, context: ToolContext) -> str | None:
        try:
            now = self._digest(path, context)
        except OSError as error:
            return f"the file {path} cannot be looked at ({error.strerror or error})"
        except ConflictError:
            return f"the file {path} is being changed by another call"
        if now is None:
            return None
        known = PolicyState.of(context, self.name).data.get(path)
        if known == now:
            return None
        return (
            f"the file {path} {'has changed since it was' if known else 'exists and was not'} read"
        )

    def _fields(self, tool: Tool[Any, Any], params: Any) -> tuple[str, ...]:
        """Return the fields that hold the paths which the tool shows or changes."""
        own = self.paths.get(tool.name)
        if own is None and tool.wire_name is not None:
            own = self.paths.get(tool.wire_name)
        if own is not None:
            return own
        there = (each for each in self.path_fields if _value(params, each) is not None)
        return tuple(there)[:1]

    def _paths(self, params: Any, fields: tuple[str, ...] | list[str]) -> list[str]:
        found: list[str] = []
        for each in fields:
            value = _value(params, each)
            listed = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
            found += [self._canonical(os.fspath(path)) for path in listed if _is_path(path)]
        return found

    def _canonical(self, path: str) -> str:
        if self.root is not None:
            root = os.path.realpath(self.root)
            return os.path.relpath(os.path.realpath(Path(root, path)), root)
        if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
            path = path.removeprefix(WORKSPACE).lstrip("/")
        return posixpath.normpath(path or ".")

    def _settled(self, path: str, context: ToolContext) -> str | None:
        """Return the hash after a success, None also for what cannot be looked at."""
        try:
            return self._digest(path, context)
        except OSError:
            return None

    def _digest(self, path: str, context: ToolContext) -> str | None:
        """Return the hash of a file's content, None where there is no file."""
        if self.root is not None:
            return _digest_of(self.root / path)
        files = context.filesystem
        if files is None:
            return None
        try:
            stat = files.stat(path)
            if stat.kind != "file":
                return None
            if stat.digest is not None:
                return stat.digest
            with files.open(path, "rb") as stream:
                return _digest_of_stream(stream)
        except NO_SUCH_FILE:
            return None


def _digest_of(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        return _digest_of_stream(stream)


def _digest_of_stream(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _value(params: Any, name: str) -> Any:
    if isinstance(params, Mapping):
        return cast("Mapping[str, Any]", params).get(name)
    return getattr(params, name, None)


def _is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(value, (str, os.PathLike))
