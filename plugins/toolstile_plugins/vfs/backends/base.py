"""Stores: trees that are read and changed in one commit. One of them lies in memory."""

# ruff: noqa: ARG002 - default methods take the arguments of other stores

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Final, Literal, Protocol, TypeVar

from toolstile_hookspecs import (
    ConflictError,
    Deadline,
    DeadlineExceededError,
    ResourceBranch,
    ResourceBusyError,
    ToolContext,
)
from toolstile_hookspecs.services.workspace import Watch, WorkspaceLayers
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.nodes import (
    Attachments,
    InMemory,
    Kind,
    Node,
    TakenFile,
    at_hand,
    directory_node,
    file_node,
    version_of,
)
from toolstile_plugins.vfs.paths import join


class Base(Protocol):
    """A tree that others lie on. Paths are canonical; by default every path can be changed."""

    @cached_property
    def attached(self) -> Attachments:
        """The contents beside the tree."""
        return Attachments()

    def look(self, path: str) -> Node | None:
        """Return the node at a path; None if there is none, or a part above is not a directory."""
        ...

    def names(self, path: str) -> Mapping[str, Kind]:
        """Return the entries of a directory; empty if it does not exist."""
        return self.contents(path)[0]

    def hidden(self, path: str) -> Mapping[str, str]:
        """Return the names in a directory that no path here can hold, each with the reason."""
        return self.contents(path)[1]

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        """Return both, `names` and `hidden`."""
        ...

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        """Yield the nodes at names of a directory, without the names that have gone."""
        for name in names:
            node = self.look(join(path, name))
            if node is not None:
                yield name, node

    def readonly(self, path: str) -> str | None:
        """Return why a path cannot be changed here, or None when it can."""
        return None

    def check_changeable(self, directory: str) -> None:
        """Raise `OSError` unless entries of a directory, or of the nearest above, can change."""
        return

    def notice(self) -> str | None:
        """Return a notice for users of this tree, such as a commit that is stuck."""
        return None

    def unchanged(self, path: str, version: object | None) -> bool:
        """Return whether a path is still in the state of a version, None for absence."""
        return version_of(self.look(path)) == version


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one path by a call."""

    path: str
    before: object | None  # the version before; None for absence
    kind: Kind | None  # the kind before; None for absence
    # The node after; None for absence. A directory in the place of a directory is a new one, with
    # nothing of the former in it.
    after: Node | None

    @property
    def changes_kind(self) -> bool:
        return self.kind is not None and self.after is not None and self.after.kind != self.kind

    @property
    def only_empties(self) -> bool:
        """True if a directory stays and loses its entries."""
        return self._stays and not self.keeps

    @property
    def keeps(self) -> bool:
        """True if a directory stays with its entries and only its mode changes."""
        return self.after is not None and self.after.keeps and self._stays

    @property
    def opens(self) -> bool:
        """True if the new mode of a directory that stays lets its owner change entries."""
        return self.keeps and self.after is not None and self.after.is_open

    @property
    def _stays(self) -> bool:
        return self.kind == "directory" and self.after is not None and not self.changes_kind


@dataclass(frozen=True, slots=True)
class Undo:
    """The undo of a commit on disk."""

    directory: str  # where the commit's former contents go
    note: Any  # the note of the call, as JSON values
    reverse: str  # the reverse of its changes, as JSON


@dataclass(frozen=True, slots=True)
class Changes:
    """The reads and writes of a call."""

    # The version of every path that the call read, None for absence.
    seen: Mapping[str, object | None]
    made: Sequence[Change]
    # The call's top-level key, where a record elsewhere decides on the commit.
    key: str | None = None
    watches: Sequence[WatchMark] = ()  # the watches over files that a program of the call read
    undo: Undo | None = None

    def paths(self) -> list[str]:
        """Return the paths of both."""
        return [*self.seen, *(change.path for change in self.made)]


class Lock(Protocol):
    """The lock of a store. While a call has it, no other call commits."""

    def release(self) -> None:
        """Release the lock; a second time does nothing."""


class WatchMark(Watch, Protocol):
    """A watch of a store."""

    def close(self) -> None:
        """End the watch: `marked` no longer changes. A second time does nothing."""


class Transaction(Protocol):
    """Prepared changes. Every other commit waits for their end."""

    def commit(self) -> None:
        """Make the changes; only interference from outside can fail here."""

    def rollback(self) -> None:
        """Drop the changes."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A transaction of two functions."""

    commit: Callable[[], None]
    rollback: Callable[[], None]


class Store(Base, Protocol):
    """A tree that takes changes, all of a call's or none.

    Attributes:
        waits: Whether its methods may wait, as for a disk.
        directories: The directories of this machine that it shows.
        keeps_former: Whether its commits keep the contents that they replace; see `Undo`.
    """

    waits: bool = True
    keeps_former: bool = False
    directories: Sequence[str] = ()

    def try_hold(self) -> Lock | None:
        """Take the lock without waiting; None while another commit has it."""
        ...

    def watch(self, hold: Lock | None = None) -> WatchMark | None:
        """Set a watch, under the lock if the call has it; None while another commit has it."""
        ...

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        """Check the reads of a call and prepare its changes, without waiting.

        Returns None while another transaction runs. `hold`, the lock if the call has it, is
        released at every end. If a path that was read has changed (`ConflictError`), or the changes
        cannot be kept (`OSError`), nothing is prepared.
        """
        ...

    def layers(self) -> WorkspaceLayers:
        """Return its parts, for a sandbox that lays them out; raises `OSError` if it has gone."""
        return WorkspaceLayers()

    def exclusive_path(
        self, hold: Lock | None = None, deadline: Deadline | None = None
    ) -> AbstractContextManager[str]:
        """Give the real directory, alone, until left; raises `OSError` if there is none."""
        ...

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """After a crash, finish decided commits and drop all others."""
        return

    def leave(self, transaction: Transaction) -> None:
        """Leave a transaction to recovery; a store without recovery drops it."""
        transaction.rollback()

    def close(self) -> None:
        """Release all resources."""
        return


# --- Conflicts


_SHOWN: Final = 5


def check_seen(base: Base, changes: Changes) -> None:
    """Raise `ConflictError` if any path that a call read has changed.

    The paths that a watched program read are unknown, so any commit counts as a change.
    """
    if changes.watches and any(watch.marked for watch in changes.watches):
        raise ConflictError(
            "Other calls changed the workspace while a program of this call read it, so nothing "
            "was overwritten. Read again, then retry."
        )
    moved = [path for path, version in changes.seen.items() if not base.unchanged(path, version)]
    if moved:
        raise conflict(moved)


def check_emptied(base: Base, changes: Changes) -> None:
    """Raise `ConflictError` if a directory to be removed has new entries."""
    changed = {change.path for change in changes.made}
    for change in changes.made:
        if change.kind == "directory" and not change.keeps:
            names, hidden = base.contents(change.path)
            held = (join(change.path, name) for name in names)
            left = [path for path in held if path not in changed]
            left += [join(change.path, ascii(name)) for name in hidden]
            if left:
                raise conflict(left)


def shown(paths: Iterable[str]) -> str:
    """Return the names of paths; of many, the first ones."""
    names = sorted(path or "the root" for path in paths)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def conflict(paths: Iterable[str]) -> ConflictError:
    """Return the error that names the changed paths."""
    return ConflictError(
        f"{shown(paths)} changed in the workspace after this call read it, so nothing was "
        "overwritten. Read again, then retry."
    )


# --- Waiting for the lock of a store


T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
_FIRST_PAUSE_SECONDS: Final = 0.000_5
_LONGEST_PAUSE_SECONDS: Final = 0.02


def wait(attempt: Callable[[], T | None], deadline: Deadline | None = None) -> T:
    """Try until the result is not None, blocking the thread between.

    Raises `DeadlineExceededError` after the deadline; without one, `ResourceBusyError` after
    `PATIENCE_SECONDS`.
    """
    pauses = _pauses(deadline)
    while (done := attempt()) is None:
        time.sleep(next(pauses))
    return done


async def wait_async(
    attempt: Callable[[], T | None], deadline: Deadline | None, *, in_threads: bool
) -> T:
    """Try until it succeeds, without blocking the event loop; raises as `wait` does."""
    pauses = _pauses(deadline)
    while (done := await asyncio.to_thread(attempt) if in_threads else attempt()) is None:  # noqa: ASYNC110 - another process may hold it
        await asyncio.sleep(next(pauses))
    return done


def _pauses(deadline: Deadline | None) -> Iterator[float]:
    bound = deadline or Deadline.after(PATIENCE_SECONDS)
    pause = _FIRST_PAUSE_SECONDS
    while not bound.elapsed():
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    if deadline is not None:
        raise DeadlineExceededError(
            "The deadline passed while another commit or program held the workspace, so nothing "
            "of this call was kept. Retry later."
        )
    raise ResourceBusyError(
        f"The workspace was held by another commit or program for {PATIENCE_SECONDS:.0f} "
        "seconds, so nothing of this call was kept. Retry later."
    )


# --- Locking a store for the retry of a call


class HeldWorkspace:
    """A workspace locked for the retry of one call; a `HeldResource`."""

    def __init__(
        self,
        store: Store,
        branch: Callable[[ToolContext, Any | None, HeldWorkspace], ResourceBranch],
        deadline: Deadline | None,
    ) -> None:
        self.waits = store.waits
        self._store = store
        self._branch = branch
        self._deadline = deadline
        self._acquiring = threading.Lock()
        self.lock: Lock | None = None  # before `acquire` and after `release`
        self._is_over = False

    def acquire(self) -> Awaitable[None] | None:
        """Take the lock; returns an awaitable while another commit has it."""
        return None if self._attempt() else self._acquire_async()

    def branch(self, context: ToolContext, parent: Any | None) -> ResourceBranch:
        return self._branch(context, parent, self)

    def release(self) -> None:
        """Release the lock, even if it is acquired only now."""
        with self._acquiring:
            self._is_over = True
            lock, self.lock = self.lock, None
        if lock is not None:
            lock.release()

    async def _acquire_async(self) -> None:
        await wait_async(self._attempt, self._deadline, in_threads=self.waits)

    def _attempt(self) -> Literal[True] | None:
        # Because the last attempt may still run in a thread when the call is cancelled.
        with self._acquiring:
            if self._is_over:
                return True
            # No error here, because the commit of the retry fails with the same one.
            with suppress(OSError):
                self.lock = self._store.try_hold()
                return None if self.lock is None else True
        return True


# --- A workspace in memory


class Turn:
    """The lock of a workspace in memory."""

    __slots__ = ("_lock",)

    def __init__(self, lock: threading.Lock) -> None:
        self._lock: threading.Lock | None = lock

    def release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


class Numbered:
    """A watch in memory: the number of commits when it was set."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._number = store.commits
        self._marked: bool | None = None

    @property
    def marked(self) -> bool:
        return self._store.commits != self._number if self._marked is None else self._marked

    def close(self) -> None:
        self._marked = self.marked


class MemoryStore(Store):
    """A tree of dicts. A commit changes the dicts in place and costs as much as it changes.

    Raises `ValueError` if a path of the first files is both a file and a directory.

    Example:
        >>> store = MemoryStore({"docs/a.txt": b"one"})
        >>> store.names("docs")
        {'a.txt': 'file'}
    """

    waits = False
    commits = 0
    """The commits so far that have changed something."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._nodes: dict[str, Node] = {"": directory_node()}
        self._held: dict[str, dict[str, Kind]] = {"": {}}
        self._turn = threading.Lock()
        # Held for moments only, so that no commit changes a directory while it is copied.
        self._still = threading.Lock()
        now = datetime.now(UTC)
        for path, data in (files or {}).items():
            name = paths.canonical(path)
            for directory in reversed(list(paths.ancestors(name))):
                self._put_first(directory, directory_node(now))
            self._put_first(name, file_node(InMemory(data), now))

    def look(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        with self._still:
            return dict(self._held.get(path, {})), {}

    def try_hold(self) -> Turn | None:
        return Turn(self._turn) if self._turn.acquire(blocking=False) else None

    def watch(self, hold: Lock | None = None) -> Numbered:
        with self._still:
            return Numbered(self)

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        held = hold or self.try_hold()
        if held is None:
            return None
        try:
            check_seen(self, changes)
            check_emptied(self, changes)
            made = changes.made
            # Because the sandbox removes the files of programs after the call.
            if any(each.after and isinstance(each.after.content, TakenFile) for each in made):
                made = [replace(each, after=at_hand(each.after)) for each in made]
                changes = replace(changes, made=made)
            return Prepared(partial(self._commit, changes, held), held.release)
        except BaseException:
            held.release()
            raise

    def exclusive_path(
        self, hold: Lock | None = None, deadline: Deadline | None = None
    ) -> AbstractContextManager[str]:
        raise io.UnsupportedOperation(
            "This workspace lies in memory and has no directory to start a program in. "
            "Use a workspace on disk (toolstile run --workspace DIR)."
        )

    def _commit(self, changes: Changes, held: Lock) -> None:
        try:
            with self._still:
                self.commits += bool(changes.made)
                for change in changes.made:
                    if change.after is None:
                        self._drop(change.path)
                for change in changes.made:
                    if change.after is not None:
                        self._put(change.path, change.after)
        finally:
            held.release()

    def _put_first(self, path: str, node: Node) -> None:
        there = self._nodes.get(path)
        if there is not None and there.kind != node.kind:
            raise ValueError(
                f"{path or 'the root'} is to be a file and a directory at once. Give the file "
                "another path."
            )
        self._put(path, node)

    def _put(self, path: str, node: Node) -> None:
        directory, name = paths.split(path)
        before = self._nodes.get(path)
        if node.kind == "directory" and before is not None and before.kind == "directory":
            mode = before.mode if node.mode is None and not node.keeps else node.mode
            node = replace(node, mode=mode, keeps=False)
        self._nodes[path] = node
        self._held[directory][name] = node.kind
        if node.kind == "directory":
            self._held.setdefault(path, {})
        else:
            self._held.pop(path, None)

    def _drop(self, path: str) -> None:
        directory, name = paths.split(path)
        self._nodes.pop(path, None)
        self._held.pop(path, None)
        self._held.get(directory, {}).pop(name, None)
