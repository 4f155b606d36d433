"""The files that a call has changed, for policies that decide between handler and commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.policies import PolicyDecision
from toolstile_hookspecs.services.filesystem import FileStat
from toolstile_hookspecs.tools import Tool


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one path.

    Args:
        path: The canonical path, with no link in it.
        before: The state before the call; None for a path that the call adds.
        after: The state after the call; None for a path that the call removes.
    """

    path: str
    before: FileStat | None
    after: FileStat | None


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The paths that a call adds, changes or removes, nested calls included.

    A file that is written again with the same content and mode is not among them.

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
        ...

    def check_changes(
        self, tool: Tool[Any, Any], changes: FileChanges, *, context: ToolContext
    ) -> PolicyDecision | Awaitable[PolicyDecision]:
        """Decide between handler and commit; on an event loop the host calls it on a worker.

        It is asked about every top-level call with file changes, and sees those of nested calls.
        An ask shows a person the diff, a deny keeps nothing, an exception denies.
        """
        ...


@runtime_checkable
class SupportsFileChanges(Protocol):
    """A branch of a resource that lists its changed files for `check_changes` of policies."""

    @property
    def changed(self) -> bool:
        """True if the call has changed anything."""
        ...

    @property
    def policies(self) -> Sequence[SupportsChangeCheck]:
        """The resource's own policies about its files, whatever tool changes them."""
        ...

    def file_changes(self) -> FileChanges:
        """Return the changes; called before `prepare`, and later changes fail the call."""
        ...

    def show_first(self, paths: Sequence[str]) -> None:
        """Have `diff` begin with these paths."""
