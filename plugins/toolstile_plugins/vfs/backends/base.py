"""Stores: trees that are read, changed in one commit, waited for and held; the one in memory."""

# ruff: noqa: ARG002 - what answers by default takes what others need

from __future__ import annotations

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
    directory_node,
    file_node,
    kept,
    version_of,
)
from toolstile_plugins.vfs.paths import join


class Base(Protocol):
    """A tree underneath others, with what holds for one that can be changed everywhere.

    Paths are canonical.
    """

    @cached_property
    def attached(self) -> Attachments:
        """The contents beside the tree."""
        return Attachments()

    def look(self, path: str) -> Node | None:
        """Return what is at a path; None when nothing is, or what is above is not a directory."""
        ...

    def names(self, path: str) -> Mapping[str, Kind]:
        """Return what a directory holds; empty when there is none."""
        ...

    def hidden(self, path: str) -> Mapping[str, str]:
        """Return the names in a directory that no path here can hold, each with the reason."""
        return {}

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        """Return both, `names` and `hidden`."""
        return self.names(path), self.hidden(path)

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        """Yield what is at names of a directory, without those that have gone."""
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
        """Tell whether a path is still in the state of a version, None for absence."""
        return version_of(self.look(path)) == version


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one path by a call.

    Args:
        path: The path.
        before: The version before; None for absence.
        kind: The kind before; None for absence.
        after: The node after; None for absence. A directory in the place of a directory is a new
            one, with nothing of the former in it.
    """

    path: str
    before: object | None
    kind: Kind | None
    after: Node | None

    @property
    def changes_kind(self) -> bool:
        """True when something else than a file or directory of the same kind takes its place."""
        return self.kind is not None and self.after is not None and self.after.kind != self.kind

    @property
    def only_empties(self) -> bool:
        """True when a directory stays, and only what it held goes."""
        return self._stays and not self.keeps

    @property
    def keeps(self) -> bool:
        """True when a directory stays with what it holds, and only its mode changes."""
        return self.after is not None and self.after.keeps and self._stays

    @property
    def opens(self) -> bool:
        """True when the mode of a directory that stays lets its owner change what it holds."""
        return self.keeps and self.after is not None and self.after.is_open

    @property
    def _stays(self) -> bool:
        return self.kind == "directory" and self.after is not None and not self.changes_kind


@dataclass(frozen=True, slots=True)
class Changes:
    """The reads and writes of a call.

    Args:
        seen: The version of every path that was looked at, None for absence.
        made: The changes to be made.
        key: The call's top-level key, where a record elsewhere decides on the commit.
        watches: The watches over what it has read unseen.
    """

    seen: Mapping[str, object | None]
    made: Sequence[Change]
    key: str | None = None
    watches: Sequence[WatchMark] = ()

    def paths(self) -> list[str]:
        """Return the paths of both."""
        return [*self.seen, *(change.path for change in self.made)]


class Lock(Protocol):
    """The lock of a store, held; nobody else commits."""

    def release(self) -> None:
        """Give it back; a second time does nothing."""


class WatchMark(Watch, Protocol):
    """A watch of a store."""

    def close(self) -> None:
        """End the watch, which then stays as it is; a second time does nothing."""


class Transaction(Protocol):
    """Prepared changes, which keep every other commit waiting."""

    def commit(self) -> None:
        """Make them; only interference from outside can fail here."""

    def rollback(self) -> None:
        """Drop them."""


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
    """

    waits: bool = True
    directories: Sequence[str] = ()

    def try_hold(self) -> Lock | None:
        """Keep all others from committing; None while another one does."""
        ...

    def watch(self, hold: Lock | None = None) -> WatchMark | None:
        """Set a watch, with the lock where the call holds it; None while another commit does."""
        ...

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        """Check what was seen and prepare what was made, without waiting.

        Args:
            changes: What was seen and made.
            hold: The lock where the call holds it; given back on every end.

        Returns:
            The transaction, or None when another one is under way.

        Raises:
            ConflictError: When something seen has changed; nothing is prepared.
            OSError: When the changes cannot be kept; nothing is prepared.
        """
        ...

    def layers(self) -> WorkspaceLayers:
        """Return its parts, for what lays it out elsewhere; raises `OSError` where it has gone."""
        return WorkspaceLayers()

    def exclusive_path(
        self, hold: Lock | None = None, deadline: Deadline | None = None
    ) -> AbstractContextManager[str]:
        """Give the real directory, alone, until left; raises `OSError` where there is none."""
        ...

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Finish after a crash what was decided, drop what was not."""
        return

    def leave(self, transaction: Transaction) -> None:
        """Leave a transaction to recovery; where there is none, drop it."""
        transaction.rollback()

    def close(self) -> None:
        """Give back what it holds."""
        return


# --- Conflicts


_SHOWN: Final = 5


def check_seen(base: Base, changes: Changes) -> None:
    """Raise `ConflictError` unless everything that a call has looked at is as it was.

    What a watched one has read is not known, so any commit may have changed it.
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
    """Raise `ConflictError` when a directory to be removed holds something new."""
    changed = {change.path for change in changes.made}
    for change in changes.made:
        if change.kind == "directory" and not change.keeps:
            names = (join(change.path, name) for name in base.names(change.path))
            left = [path for path in names if path not in changed]
            left += [join(change.path, ascii(name)) for name in base.hidden(change.path)]
            if left:
                raise conflict(left)


def shown(paths: Iterable[str]) -> str:
    """Return the names of paths, of many the first."""
    names = sorted(path or "the root" for path in paths)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def conflict(paths: Iterable[str]) -> ConflictError:
    """Return the error that names what has changed."""
    return ConflictError(
        f"{shown(paths)} changed in the workspace after this call read it, so nothing was "
        "overwritten. Read again, then retry."
    )


# --- Waiting for a store that another commit holds


T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
_FIRST_PAUSE_SECONDS: Final = 0.000_5
_LONGEST_PAUSE_SECONDS: Final = 0.02


def wait(attempt: Callable[[], T | None], deadline: Deadline | None = None) -> T:
    """Try until it succeeds, blocking the thread between.

    Args:
        attempt: Returns None as long as it has to be made again.
        deadline: The bound of the wait; without one that is `PATIENCE_SECONDS`.

    Raises:
        ResourceBusyError: When the other one does not end.
        DeadlineExceededError: When the deadline passes first.
    """
    pauses = _pauses(deadline)
    while (done := attempt()) is None:
        time.sleep(next(pauses))
    return done


async def wait_async(
    attempt: Callable[[], T | None], deadline: Deadline | None, *, in_threads: bool
) -> T:
    """Try until it succeeds, leaving the loop to others between; raises as `wait` does."""
    # Late, as it is slow to import, and commands that dispatch nothing do without it.
    import asyncio

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


# --- Holding a store while a call runs once more


class HeldWorkspace:
    """A workspace to which nobody else commits while a call runs once more; a `HeldResource`.

    Args:
        store: Its files.
        branch: Makes the call's branch, which commits with the lock.
        deadline: The bound of the wait for the lock.

    Attributes:
        lock: The lock; None before it is there, and once it was given back.
    """

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
        self.lock: Lock | None = None
        self._is_over = False

    def acquire(self) -> Awaitable[None] | None:
        """Take the lock; returns what to await while another commit holds the workspace."""
        return None if self._attempt() else self._acquire_async()

    def branch(self, context: ToolContext, parent: Any | None) -> ResourceBranch:
        """Return the branch of the call that runs once more."""
        return self._branch(context, parent, self)

    def release(self) -> None:
        """Give the lock back, also where it comes only now."""
        with self._acquiring:
            self._is_over = True
            lock, self.lock = self.lock, None
        if lock is not None:
            lock.release()

    async def _acquire_async(self) -> None:
        await wait_async(self._attempt, self._deadline, in_threads=self.waits)

    def _attempt(self) -> Literal[True] | None:
        # The last attempt may be on its way in a thread when the call is given up.
        with self._acquiring:
            if self._is_over:
                return True
            # Where it cannot be locked, nothing can be kept either.
            with suppress(OSError):
                self.lock = self._store.try_hold()
                return None if self.lock is None else True
        return True


# --- A workspace in memory


class Turn:
    """The lock of a workspace in memory, held."""

    __slots__ = ("_lock",)

    def __init__(self, lock: threading.Lock) -> None:
        self._lock: threading.Lock | None = lock

    def release(self) -> None:
        """Give it back; a second time does nothing."""
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
        """True once another call has committed."""
        return self._store.commits != self._number if self._marked is None else self._marked

    def close(self) -> None:
        """End the watch."""
        self._marked = self.marked


class MemoryStore(Store):
    """A tree of dicts that only commits change, each in place: O(what changed).

    Args:
        files: What it holds at first, by path.

    Raises:
        ValueError: When a path is to be a file and a directory.

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
        # Shorter than a turn: keeps a directory still while it is copied.
        self._still = threading.Lock()
        now = datetime.now(UTC)
        for path, data in (files or {}).items():
            name = paths.canonical(path)
            for directory in reversed(list(paths.ancestors(name))):
                self._put_first(directory, directory_node(now))
            self._put_first(name, file_node(InMemory(data), now))

    def look(self, path: str) -> Node | None:
        """Return what is at a path."""
        return self._nodes.get(path)

    def names(self, path: str) -> Mapping[str, Kind]:
        """Return what a directory holds."""
        with self._still:
            return dict(self._held.get(path, {}))

    def try_hold(self) -> Turn | None:
        """Keep all others from committing; None while another one does."""
        return Turn(self._turn) if self._turn.acquire(blocking=False) else None

    def watch(self, hold: Lock | None = None) -> Numbered:
        """Set a watch; no half of a commit is ever seen here."""
        with self._still:
            return Numbered(self)

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        """Check what was seen and prepare what was made, without waiting."""
        held = hold or self.try_hold()
        if held is None:
            return None
        try:
            check_seen(self, changes)
            check_emptied(self, changes)
            if any(_is_taken(change) for change in changes.made):
                changes = replace(changes, made=[_at_hand(change) for change in changes.made])
            return Prepared(partial(self._commit, changes, held), held.release)
        except BaseException:
            held.release()
            raise

    def exclusive_path(
        self,
        hold: Lock | None = None,
        deadline: Deadline | None = None,
    ) -> AbstractContextManager[str]:
        """Refuse: there is no directory.

        Raises:
            io.UnsupportedOperation: Always.
        """
        raise io.UnsupportedOperation(
            "This workspace lies in memory, so there is no directory to start a program in. "
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


def _is_taken(change: Change) -> bool:
    return change.after is not None and isinstance(change.after.content, TakenFile)


def _at_hand(change: Change) -> Change:
    """Return a change whose content stays when what it was taken from has gone."""
    after = change.after
    if after is None or after.content is None:
        return change
    return replace(change, after=replace(after, content=kept(after.content)))
