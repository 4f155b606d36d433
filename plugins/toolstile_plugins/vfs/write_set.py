"""The read set and the write set of a call, over a base, and checkpoints of a workspace."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

from toolstile_hookspecs import CallClosed
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import (
    Base,
    Change,
    Changes,
    Transaction,
    WatchMark,
    conflict,
)
from toolstile_plugins.vfs.nodes import Attachments, Kind, Node, at_hand, directory_node, version_of

_ROOT: Final = directory_node()


class Layer(Base):
    """The writes and reads of a call over a base. Nested calls stack their layers on it.

    A layer costs as much as its changes, whatever the size of the tree. The first look at a path
    pins the path: if the base shows another state later, that is a conflict. Names and nodes of
    directories are not pinned.
    """

    def __init__(self, base: Base) -> None:
        self._base = base
        self._seen: dict[str, Node | None] = {}
        # None stands for a removed path. A directory in here is new and has nothing of the base in
        # it, so each path beneath is in here, too, or does not exist. The exception is a directory
        # that keeps its entries: it is the base's, with another mode.
        self._made: dict[str, Node | None] = {}
        self._made_in: dict[str, dict[str, None]] = {}
        self._closed: str | None = None
        self.conflicted = False  # whether the base was found to have changed
        self.changed_late = False  # whether something was put or removed since this was set
        # Over files that programs read; they are closed with the branch.
        self.watches: tuple[WatchMark, ...] = ()
        # Handlers may use threads, and nested calls that run side by side share this layer.
        self._lock = threading.RLock()

    @cached_property
    def attached(self) -> Attachments:
        return self._base.attached

    @property
    def changed(self) -> bool:
        return bool(self._made)

    # --- as a base ---

    def look(self, path: str) -> Node | None:
        with self._lock:
            self._check_open()
            if not path:
                return _ROOT
            if (attached := self.attached.get(path)) is not None:
                return attached
            if path in self._made:
                return self._made[path]
            if self._made and self._is_covered(path):
                return None
            node = self._base.look(path)
            if path not in self._seen:
                self._seen[path] = node
            elif version_of(self._seen[path]) != version_of(node):
                self.conflicted = True
                raise conflict([path])
            return node

    def first(self, path: str) -> Node | None:
        """Return the node at a path before this layer changed it, without pinning the path."""
        with self._lock:
            self._check_open()
            return self._seen[path] if path in self._seen else self._base.look(path)

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        with self._lock:
            self._check_open()
            if not self._made:
                return self._base.contents(path)
            names: dict[str, Kind] = {}
            hidden: Mapping[str, str] = {}
            if not self._shows_nothing_below(path):
                shown, hidden = self._base.contents(path)
                names.update(shown)
            for name in self._made_in.get(path, ()):
                node = self._made[paths.join(path, name)]
                if node is None:
                    names.pop(name, None)
                else:
                    names[name] = node.kind
            return names, hidden

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        with self._lock:
            self._check_open()
            made = self._made_in.get(path, {})
            own = [
                (name, node)
                for name in names
                if name in made and (node := self._made[paths.join(path, name)]) is not None
            ]
            others = [name for name in names if name not in made]
            covered = self._shows_nothing_below(path)
        yield from own
        if others and not covered:
            yield from self._base.nodes(path, others)

    def readonly(self, path: str) -> str | None:
        with self._lock:
            self._check_open()
            return self.attached.refusal(path) or self._base.readonly(path)

    def check_changeable(self, directory: str) -> None:
        node = self._made.get(directory)
        # A directory that this call opens is checked by the commit.
        if node is None or not node.keeps or not node.is_open:
            self._base.check_changeable(directory)

    def notice(self) -> str | None:
        return self._base.notice()

    def unchanged(self, path: str, version: object | None) -> bool:
        # Compares with this layer only; its own commit compares with the base.
        with self._lock:
            self._check_open()
            if path in self._made:
                return version_of(self._made[path]) == version
            if self._is_covered(path):
                return version is None
            return path not in self._seen or version_of(self._seen[path]) == version

    # --- changes ---

    def put(self, path: str, node: Node) -> None:
        """Put a node at a path, replacing any other."""
        with self._lock:
            self._check_open()
            self._set(path, node)

    def remove(self, path: str) -> None:
        """Remove the node at a path, a directory after its entries."""
        with self._lock:
            self._check_open()
            self._set(path, None)

    def changes(self, key: str | None = None) -> Changes:
        """Return the reads and the changes, sorted by path."""
        with self._lock:
            self._check_open()
            made: list[Change] = []
            # Sorted, so that a directory comes before its entries.
            for path in sorted(self._made):
                before = self._seen.get(path)
                kind = before.kind if before is not None else None
                made.append(Change(path, version_of(before), kind, self._made[path]))
            seen = {path: version_of(node) for path, node in self._seen.items()}
            return Changes(seen, made, key, self.watches)

    def before(self, path: str) -> Node | None:
        """Return the pinned node of a path, the one before this layer changed it."""
        with self._lock:
            return self._seen.get(path)

    def absorb(self, changes: Changes) -> None:
        """Take over the changes of a layer on this one."""
        with self._lock:
            self._check_open()
            self.watches += tuple(changes.watches)
            for change in changes.made:
                self._set(change.path, change.after)

    def watch(self, mark: WatchMark) -> None:
        with self._lock:
            if self._closed is not None:
                mark.close()
            self._check_open()
            self.watches += (mark,)

    def made(self) -> Mapping[str, Node | None]:
        """Return the changed nodes so far, by path; None for a removed path."""
        with self._lock:
            return dict(self._made)

    def make_only(self, made: Mapping[str, Node | None]) -> None:
        """Replace the changes by earlier ones; reads since then stay."""
        with self._lock:
            self._check_open()
            self._made.clear()
            self._made_in.clear()
            for path, node in made.items():
                self._set(path, node)

    def forget_seen(self) -> None:
        """Drop the pin of every path that is not changed."""
        with self._lock:
            self._seen = {path: node for path, node in self._seen.items() if path in self._made}

    def close(self, reason: str) -> None:
        """Close it: every later access raises `CallClosed`."""
        with self._lock:
            self._closed = self._closed or reason
            # Because contents may keep files of programs alive.
            self._made, self._made_in = {}, {}

    def _check_open(self) -> None:
        if self._closed is not None:
            raise CallClosed(self._closed)

    def _set(self, path: str, node: Node | None) -> None:
        self.changed_late = True
        directory, name = paths.split(path)
        if node is None and self._seen.get(path) is None:
            # Made and removed by this call, and never in the base.
            self._made.pop(path, None)
            self._made_in.get(directory, {}).pop(name, None)
            return
        if node is not None and node.keeps and self._covers(path):
            node = replace(node, keeps=False)
        self._made[path] = node
        self._made_in.setdefault(directory, {})[name] = None

    def _covers(self, path: str) -> bool:
        if path not in self._made:
            return False
        node = self._made[path]
        return node is None or not node.keeps

    def _is_covered(self, path: str) -> bool:
        made = self._made
        return any(
            directory in made and self._covers(directory) for directory in paths.ancestors(path)
        )

    def _shows_nothing_below(self, path: str) -> bool:
        return bool(self._made) and (self._covers(path) or self._is_covered(path))


class Checkpoint:
    """A moment of a workspace: the nodes that commits have replaced since, None for absence."""

    __slots__ = ("__weakref__", "before")

    def __init__(self) -> None:
        self.before: dict[str, Node | None] = {}


class Checkpoints:
    """The live checkpoints. Commits note the nodes that they replace in them."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[Checkpoint] = weakref.WeakSet()
        self._lock = threading.Lock()

    def make(self) -> Checkpoint:
        checkpoint = Checkpoint()
        with self._lock:
            self._held.add(checkpoint)
        return checkpoint

    def kept(self, layer: Layer, changes: Changes) -> Mapping[str, Node | None]:
        """Return the nodes that a layer replaces, by path; nothing without a live checkpoint."""
        if not self._held:
            return {}
        return {change.path: at_hand(layer.before(change.path)) for change in changes.made}

    def commit(self, transaction: Transaction, replaced: Mapping[str, Node | None]) -> None:
        """Commit, and note the replaced nodes in the live checkpoints."""
        if not replaced:
            transaction.commit()
            return
        # Under a lock, because the notes must have the order of the commits.
        with self._lock:
            transaction.commit()
            for checkpoint in self._held:
                for path, node in replaced.items():
                    checkpoint.before.setdefault(path, node)

    def before(self, checkpoint: Checkpoint) -> Mapping[str, Node | None]:
        """Return the replaced nodes that a checkpoint has noted so far."""
        with self._lock:
            return dict(checkpoint.before)
