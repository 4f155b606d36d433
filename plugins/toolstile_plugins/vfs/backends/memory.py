"""A workspace in memory."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import Changes, Transaction
from toolstile_plugins.vfs.nodes import InMemory, Kind, Node, directory_node, file_node
from toolstile_plugins.vfs.write_set import check_emptied, check_seen


class MemoryStore:
    """A tree of dicts that only commits change, each in place: O(what changed).

    Args:
        files: What it holds at first, by path.

    Example:
        >>> store = MemoryStore({"docs/a.txt": b"one"})
        >>> store.names("docs")
        {'a.txt': 'file'}
    """

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

    def hidden(self, path: str) -> Mapping[str, str]:  # noqa: ARG002 - the protocol's
        """Tell that nothing is here that no path can name."""
        return {}

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        """Yield what is at names of a directory."""
        for name in names:
            node = self._nodes.get(paths.join(path, name))
            if node is not None:
                yield name, node

    def readonly(self, path: str) -> None:  # noqa: ARG002 - the protocol's
        """Tell that everything can be changed here."""
        return

    def check_changeable(self, directory: str) -> None:
        """Do nothing: everything can be changed here."""

    def check_readable(self, path: str) -> None:
        """Do nothing: everything can be read here."""

    def notice(self) -> None:
        """Tell that there is nothing to know."""
        return

    def unchanged(self, path: str, version: object | None) -> bool:
        """Tell whether a path is still in the state of a version."""
        node = self._nodes.get(path)
        return (None if node is None else node.version) == version

    def begin(self, changes: Changes) -> Transaction | None:
        """Check what was seen and prepare what was made, without waiting."""
        if not self._turn.acquire(blocking=False):
            return None
        try:
            check_seen(self, changes)
            check_emptied(self, changes)
            return _MemoryTransaction(self, changes, self._turn)
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

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Do nothing: what is in memory does not outlive a crash."""

    def close(self) -> None:
        """Do nothing: it holds only memory."""

    def apply(self, changes: Changes) -> None:
        """Make changes that were checked."""
        with self._still:
            for change in changes.made:
                if change.after is None:
                    self._drop(change.path)
            for change in changes.made:
                if change.after is not None:
                    self._put(change.path, change.after)

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


class _MemoryTransaction:
    def __init__(self, store: MemoryStore, changes: Changes, turn: threading.Lock) -> None:
        self._store = store
        self._changes = changes
        self._turn = turn

    def commit(self) -> None:
        try:
            self._store.apply(self._changes)
        finally:
            self._turn.release()

    def rollback(self) -> None:
        self._turn.release()
