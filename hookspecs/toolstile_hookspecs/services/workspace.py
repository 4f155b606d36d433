"""Optional parts of a workspace: changed files, layers, watches and attachments."""

# pyright: reportReturnType=false

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from toolstile_hookspecs.content import ResourceLink
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.policies import PolicyDecision
from toolstile_hookspecs.services.filesystem import FileStat
from toolstile_hookspecs.tools import Tool
from toolstile_hookspecs.transactions import Branchable


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one path.

    Args:
        path: The canonical path, without links.
        before: The state before the call; None for a path that the call adds.
        after: The state after the call; None for a path that the call removes.
    """

    path: str
    before: FileStat | None
    after: FileStat | None


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The paths that a call adds, changes or removes, nested calls included.

    A file that a call writes again with the same content and mode is left out.

    Args:
        made: The changes, sorted by path.
        stat: Returns the state of any path, after the call or before it.
        read: Returns the content of any file, after the call or before it; None if it has none.
        root: The directory of this machine; None for a workspace in memory.
    """

    made: Sequence[FileChange]
    stat: Callable[[str, bool], FileStat | None]
    read: Callable[[str, bool], bytes | None]
    root: str | None = None

    def __iter__(self) -> Iterator[FileChange]:
        return iter(self.made)

    def __len__(self) -> int:
        return len(self.made)


@runtime_checkable
class SupportsChangeCheck(Protocol):
    """A policy that decides on the files that a call has changed."""

    @property
    def name(self) -> str:
        """The name of this instance."""

    def check_changes(
        self, tool: Tool[Any, Any], changes: FileChanges, *, context: ToolContext
    ) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide between handler and commit; on an event loop the host calls it on a worker.

        The host asks about every top-level call with file changes, those of nested calls included.
        An ask shows a person the diff, a deny keeps nothing, an exception denies.
        """


@runtime_checkable
class SupportsFileChanges(Protocol):
    """A branch of a resource that lists its changed files for `check_changes` of policies."""

    @property
    def changed(self) -> bool:
        """True if the call has changed anything."""

    @property
    def policies(self) -> Sequence[SupportsChangeCheck]:
        """The resource's own policies about its files, for all tools."""

    def file_changes(self) -> FileChanges:
        """Return the changes; called before `prepare`, and later changes fail the call."""

    def show_first(self, paths: Sequence[str]) -> None:
        """Have `diff` begin with these paths."""


@dataclass(frozen=True, slots=True)
class WorkspaceLayers:
    """The parts of a call's workspace.

    Args:
        directory: The real directory underneath; None without one, as in memory.
        changed: The paths that differ from it, each with True if the directory's entries beneath
            the path are hidden.
        mounts: The paths of read-only parts, each with its real directory, or None.
    """

    directory: str | None = None
    changed: Mapping[str, bool] = field(default_factory=dict[str, bool])
    mounts: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


@runtime_checkable
class SupportsLayers(Protocol):
    """An optional part of a `Filesystem`: a sandbox need not copy all of it."""

    def layers(self) -> WorkspaceLayers:
        """Return the parts of the workspace as this call sees it."""

    def take(
        self,
        path: str,
        source: str | os.PathLike[str],
        *,
        mode: int,
        modified: int,
        keeper: object = None,
    ) -> None:
        """Replace the file at a path by a file that a program has left outside of the workspace.

        Args:
            path: The path, which is not a directory.
            source: The file, which must not change from now on.
            mode: The permission bits.
            modified: The time of its last change, in nanoseconds since 1970.
            keeper: An object that lives while the file is needed, such as a temporary directory.
        """


class Watch(Protocol):
    """A watch over the commits to a workspace; it ends with its call."""

    @property
    def marked(self) -> bool:
        """True once another call has committed; this call then ends in `conflict`."""


@runtime_checkable
class SupportsWatch(Protocol):
    """A call's `Filesystem` for programs, whose reads the host cannot see."""

    def watch(self) -> Watch:
        """Begin to watch, before files are laid out; may wait, so never on an event loop."""


class HeldResource(Branchable, Protocol):
    """A `Branchable` closed to other calls' commits; the rerun takes its branch from here."""

    def acquire(self) -> Awaitable[None] | None:
        """Keep other calls from committing; may wait."""

    def release(self) -> None:
        """Let other calls commit, also while `acquire` waits; called at each end of the call."""


@runtime_checkable
class SupportsHold(Protocol):
    """A resource's branch whose rerun after a conflict can keep others from committing."""

    def hold_for_rerun(self) -> HeldResource | None:
        """Return the resource to hold after the rollback; None if the conflict was elsewhere."""


WORKSPACE_URI: Final = "workspace:///"
"""The beginning of links into a workspace; a server replaces it by its own."""


@runtime_checkable
class SupportsAttachments(Protocol):
    """An optional part of a `Filesystem`: readable contents outside of its tree."""

    def attach(self, content: bytes, suffix: str = "") -> str:
        """Keep a content, and return a path that no listing, search, diff, digest or commit shows.

        It outlives the call, until the workspace is closed or newer contents need the room.

        Args:
            content: The content.
            suffix: The end of the path, such as `.txt`.
        """


@runtime_checkable
class SupportsLinks(Protocol):
    """An optional part of a value: links to resources, for clients that can read them."""

    @property
    def links(self) -> Sequence[ResourceLink]:
        """The links."""
