"""A workspace in memory."""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial

from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import Changes, Prepared, Store, Transaction
from toolstile_plugins.vfs.nodes import InMemory, Kind, Node, directory_node, file_node
from toolstile_plugins.vfs.write_set import check_emptied, check_seen


class MemoryStore(Store):
    """A tree of dicts that only commits change, each in place: O(what changed).

    Args:
        files: What it holds at first, by path.

    Example:
        >>> store = MemoryStore({"docs/a.txt": b"one"})
        >>> store.names("docs")
        {'a.txt': 'file'}
    """

    waits = False

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
                if directory not in self._nodes:
                    self._put(directory, directory_node(now))
            self._put(name, file_node(InMemory(data), now))

    def look(self, path: str) -> Node | None:
        """Return what is at a path."""
        return self._nodes.get(path)

    def names(self, path: str) -> Mapping[str, Kind]:
        """Return what a directory holds."""
        with self._still:
            return dict(self._held.get(path, {}))

    def begin(self, changes: Changes) -> Transaction | None:
        """Check what was seen and prepare what was made, without waiting."""
        if not self._turn.acquire(blocking=False):
            return None
        try:
            check_seen(self, changes)
            check_emptied(self, changes)
            return Prepared(partial(self._commit, changes), self._turn.release)
        except BaseException:
            self._turn.release()
            raise

    def exclusive_path(self) -> AbstractContextManager[str]:
        """Refuse: there is no directory.

        Raises:
            io.UnsupportedOperation: Always.
        """
        raise io.UnsupportedOperation(
            "This workspace lies in memory, so there is no directory to start a program in. "
            "Use a workspace on disk (toolstile run --workspace DIR)."
        )

    def _commit(self, changes: Changes) -> None:
        try:
            with self._still:
                for change in changes.made:
                    if change.after is None:
                        self._drop(change.path)
                for change in changes.made:
                    if change.after is not None:
                        self._put(change.path, change.after)
        finally:
            self._turn.release()

    def _put(self, path: str, node: Node) -> None:
        directory, name = paths.split(path)
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
