"""The policy that no file is overwritten unless its present content was read."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterable, Mapping, Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeGuard, cast

from toolstile_hookspecs import (
    ConflictError,
    DefinitionError,
    Filesystem,
    PolicyDecision,
    PolicyState,
    Tool,
    ToolContext,
    ToolResult,
)
from toolstile_hookspecs.codecs import as_sentence
from toolstile_plugins.policies.checks import check_fields, entries_for, is_among

WORKSPACE: Final = "/workspace"
CHUNK: Final = 1 << 20
LARGE: Final = 64 * 1024 * 1024
"""Bytes up to which a file is read to be known; it would take too long for a larger one."""
NO_SUCH_FILE: Final = (FileNotFoundError, NotADirectoryError)
"""The errors that mean "no file"; all others mean "unknown"."""

READ_TOOLS: Final = frozenset({"read_file"})
WRITE_TOOLS: Final = frozenset({"write_file", "edit_file", "delete_file", "copy_file", "move_file"})


@dataclass(frozen=True, slots=True)
class WorkspaceFiles:
    """The files of the workspace, as a call sees them."""

    workspace: Filesystem

    def canonical(self, path: str) -> str:
        """Return the one spelling of a path: without detours and the alias of the root."""
        if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
            path = path.removeprefix(WORKSPACE).lstrip("/")
        elif path.startswith("/"):
            # Whether it is a path at all is for the workspace to say.
            return path
        return posixpath.normpath(path or ".")

    def holds(self, path: str) -> bool:
        """Tell whether there is a file."""
        try:
            return self.workspace.stat(path).kind == "file"
        except NO_SUCH_FILE:
            return False

    def digest(self, path: str) -> str | None:
        """Return the SHA-256 of a file in hex, read unless the workspace knows it; None for none.

        Of more than `LARGE` bytes it is that of the size, the time of the last change and the
        beginning. A directory is not a file, nor is a link that leads nowhere or a device.

        Raises:
            OSError: When it cannot be looked at.
            ValueError: When it can be no path at all.
            ConflictError: When it is being changed.
        """
        try:
            known = self.workspace.stat(path)
            if known.kind != "file":
                return None
            if known.digest is not None:
                return known.digest
            with self.workspace.open(path, "rb") as stream:
                if known.size > LARGE and known.modified is not None:
                    return outline_of(stream, known.size, known.modified.isoformat())
                return digest_of(stream)
        except NO_SUCH_FILE:
            return None


@dataclass(frozen=True, slots=True)
class DirectoryFiles:
    """The files of a directory on disk."""

    root: Path

    def canonical(self, path: str) -> str:
        """Return the one spelling of a path: from the directory, with links followed.

        Raises:
            ValueError: When it leads outside.
        """
        root = os.path.realpath(self.root)
        found = os.path.relpath(os.path.realpath(Path(root, path)), root)
        if found.split(os.sep, 1)[0] == os.pardir:
            raise ValueError(
                "It lies outside of the directory that the files are in. Give a path within it."
            )
        return found

    def holds(self, path: str) -> bool:
        """Tell whether there is a file."""
        try:
            # Not `is_file`, which takes what it may not look at for nothing.
            return stat.S_ISREG(Path(self.root, path).stat().st_mode)
        except NO_SUCH_FILE:
            self._check_there()
            return False

    def digest(self, path: str) -> str | None:
        """Return the SHA-256 of a file as `WorkspaceFiles` does."""
        if not self.holds(path):
            return None
        try:
            with Path(self.root, path).open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_size > LARGE:
                    return outline_of(stream, status.st_size, str(status.st_mtime_ns))
                return digest_of(stream)
        except NO_SUCH_FILE:
            return None

    def _check_there(self) -> None:
        if not self.root.is_dir():
            raise OSError(
                "The directory that the files are in is gone. This requires human intervention."
            )


Files = WorkspaceFiles | DirectoryFiles


def digest_of(stream: BinaryIO) -> str:
    """Return the SHA-256 of what a stream gives, in hex."""
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def outline_of(stream: BinaryIO, size: int, modified: str) -> str:
    """Return the SHA-256 of a file's size, last change and beginning, in hex, marked as such."""
    digest = hashlib.sha256(f"{size} {modified} ".encode())
    digest.update(stream.read(CHUNK))
    return f"outline {digest.hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class ReadBeforeWritePolicy:
    """Lets an existing file be changed only after its present content was read.

    New files can be created freely. A file that has changed since it was read must be read again.
    A successful write counts as reading. Deleting counts as writing, and so does moving or copying
    onto a file. A moved or copied file counts as read where the original did.

    The success of a reading tool counts as reading. Some lines are enough, and so is the
    description of a binary file. A file that cannot be looked at is not changed. Directories are
    not governed, even when they are deleted as a whole.

    Args:
        read_tools: Tools that show a file's content.
        write_tools: Tools that change, replace or remove a file.
        path_fields: The fields of the path, of which the first that the params have counts.
        source_fields: The fields of the path that a tool moves or copies from.
        paths: For single tools, all the fields with a path that they show or change:
            `{"rename": ("old", "new")}`. A field may hold a list of paths.
        root: The directory that paths are relative to, for tools that do not use the workspace.
        name: The instance's name; made of kind, place and position if not given.

    Raises:
        DefinitionError: When `root` is not a directory, or a field has another type.
    """

    read_tools: AbstractSet[str] = READ_TOOLS
    write_tools: AbstractSet[str] = WRITE_TOOLS
    path_fields: tuple[str, ...] = ("target", "destination", "path", "file_path")
    source_fields: tuple[str, ...] = ("source", "path", "file_path")
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    root: Path | None = None
    name: str = ""

    def __post_init__(self) -> None:
        """Check that there is something to govern, and hold on to where it is."""
        check_fields(self)
        if self.root is None:
            return
        root = Path(self.root).absolute()
        if not root.is_dir():
            msg = (
                f"ReadBeforeWritePolicy: root: expected a directory, but there is none at {root}. "
                "Make it, or name the one that the tools work in."
            )
            raise DefinitionError(msg)
        object.__setattr__(self, "root", root)

    @property
    def governed(self) -> AbstractSet[str]:
        """The names of tools it rules by, but for those it would rule by anyway."""
        named = frozenset([*self.read_tools, *self.write_tools, *self.paths])
        return named - READ_TOOLS - WRITE_TOOLS

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny a change of files whose present content was not read, naming all of them."""
        if not is_among(tool, self.write_tools):
            return PolicyDecision.allow()
        files = self._files(context)
        if files is None:
            return PolicyDecision.allow()
        known = PolicyState.of(context, self.name).data
        unread: list[str] = []
        unknown: list[str] = []
        for given in _paths(params, self._fields(tool, params)):
            try:
                path = files.canonical(given)
                fault = _fault(files, path, known.get(path))
            except (OSError, ValueError) as error:
                shown = given if given.isprintable() else repr(given)
                unknown.append(f"the file {shown} cannot be looked at: {_reason_of(error)}")
            else:
                unread += [] if fault is None else [f"the file {path} {fault}"]
        if not unread and not unknown:
            return PolicyDecision.allow()
        return PolicyDecision.deny(self._reason(tool, unread, unknown))

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember the contents that were read or written."""
        writes, reads = is_among(tool, self.write_tools), is_among(tool, self.read_tools)
        if not writes and not reads:
            return
        files = self._files(context)
        if files is None:
            return
        fields = self._fields(tool, params)
        now = _settled(files, _paths(params, fields))
        if not now:
            return
        state = PolicyState.of(context, self.name)
        if writes:
            sources = [name for name in self.source_fields if name not in fields]
            now |= _carried(files, _paths(params, sources[:1]), now, state)
        keys = {(tool.name, path) for path, digest in now.items() if reads and digest is not None}
        known = all(state.data.get(path) == digest for path, digest in now.items())
        if known and keys <= state.invoked_keys:
            return
        data = {
            path: digest for path, digest in {**state.data, **now}.items() if digest is not None
        }
        replace(state, invoked_keys=state.invoked_keys | keys, data=data).save(context)

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether the tool writes."""
        return is_among(tool, self.write_tools)

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Tell whether the tool reads or writes."""
        return is_among(tool, self.write_tools) or is_among(tool, self.read_tools)

    def _files(self, context: ToolContext) -> Files | None:
        if self.root is not None:
            return DirectoryFiles(self.root)
        workspace = context.filesystem
        return None if workspace is None else WorkspaceFiles(workspace)

    def _fields(self, tool: Tool[Any, Any], params: Any) -> tuple[str, ...]:
        """Return the fields that hold the paths which the tool shows or changes."""
        if own := entries_for(tool, self.paths):
            return tuple(dict.fromkeys(name for names in own for name in names))
        there = (name for name in self.path_fields if _value(params, name) is not None)
        return tuple(there)[:1]

    def _reason(self, tool: Tool[Any, Any], unread: list[str], unknown: list[str]) -> str:
        """Return the objections to the call, and the remedy."""
        parts = unknown
        if unread:
            readers = " or ".join(sorted(self.read_tools))
            them = "each of them" if len(unread) > 1 else "it"
            parts = [
                *unknown,
                f"{'; '.join(unread)}. Call {readers} on {them} first, then retry {tool.name}.",
            ]
        return f"Cannot call {tool.name}: {' Also, '.join(parts)}"


def _fault(files: Files, path: str, known: str | None) -> str | None:
    """Return the objection to changing a file of which this content is known."""
    try:
        if known is None:
            return "exists and was not read" if files.holds(path) else None
        if files.digest(path) in {None, known}:
            return None
    except ConflictError:
        return "is being changed by another call"
    return "has changed since it was read"


def _settled(files: Files, paths: Iterable[str]) -> dict[str, str | None]:
    """Return the hashes after a success, None also where a file cannot be looked at."""
    now: dict[str, str | None] = {}
    for given in paths:
        with suppress(ValueError):
            path = files.canonical(given)
            now[path] = None
            with suppress(OSError):
                now[path] = files.digest(path)
    return now


def _carried(
    files: Files, sources: list[str], now: Mapping[str, str | None], state: PolicyState
) -> dict[str, str | None]:
    """Return the known hashes after a move or copy: the target has that of the source."""
    changed: dict[str, str | None] = {}
    for given in sources:
        with suppress(OSError, ValueError):
            source = files.canonical(given)
            known = state.data.get(source)
            changed = {path: digest if digest == known else None for path, digest in now.items()}
            if not files.holds(source):
                changed[source] = None
    return changed


def _paths(params: Any, fields: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in fields:
        value = _value(params, name)
        listed = cast("list[object]", value) if isinstance(value, (list, tuple)) else [value]
        found += [os.fspath(path) for path in listed if _is_path(path)]
    return found


def _reason_of(error: OSError | ValueError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror.lower()}. This requires human intervention."
    return as_sentence(str(error) or "nobody says why")


def _value(params: Any, name: str) -> Any:
    if isinstance(params, Mapping):
        return cast("Mapping[str, Any]", params).get(name)
    return getattr(params, name, None)


def _is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(value, (str, os.PathLike))
