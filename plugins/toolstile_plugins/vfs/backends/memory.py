"""A workspace in memory."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from toolstile_hookspecs import Deadline
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import Change, Changes, Lock, Prepared, Store, Transaction
from toolstile_plugins.vfs.nodes import InMemory, Kind, Node, TakenFile, directory_node, file_node
from toolstile_plugins.vfs.write_set import check_emptied, check_seen, kept


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

    def watch(self, hold: Lock | None = None) -> Numbered:  # noqa: ARG002 - for others
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
        hold: Lock | None = None,  # noqa: ARG002 - for others
        deadline: Deadline | None = None,  # noqa: ARG002
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
