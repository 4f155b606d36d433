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
from toolstile_plugins.vfs.nodes import (
    Attachments,
    Kind,
    Node,
    directory_node,
    kept,
    version_of,
)

_ROOT: Final = directory_node()


class Layer(Base):
    """A write set and a read set over a base; itself a base for the layers of nested calls.

    A layer costs what is put into it, whatever the size of the tree. A path is pinned
    at the first look: if the base shows it otherwise later on, that is a conflict. Names and
    nodes of directories are not pinned.

    Attributes:
        conflicted: Whether the base was found to have changed.
        changed_late: Whether something was put or removed since this was set to False.
        watches: The watches over what is read unseen; they are closed with the branch.
    """

    def __init__(self, base: Base) -> None:
        self._base = base
        self._seen: dict[str, Node | None] = {}
        # None stands for what is removed. A directory in here is a new one, with nothing of
        # the base in it: so whatever lies beneath a path in here is in here too, or nowhere.
        # Only one that keeps what it holds is the base's, with another mode.
        self._made: dict[str, Node | None] = {}
        self._made_in: dict[str, dict[str, None]] = {}
        self._closed: str | None = None
        self.conflicted = self.changed_late = False
        self.watches: tuple[WatchMark, ...] = ()
        # Handlers may use threads, and nested calls that run side by side share this layer.
        self._lock = threading.RLock()

    @cached_property
    def attached(self) -> Attachments:
        """The contents beside the tree."""
        return self._base.attached

    @property
    def changed(self) -> bool:
        """True when anything is written or removed."""
        return bool(self._made)

    # --- as a base ---

    def look(self, path: str) -> Node | None:
        """Return what is at a path, and pin it.

        Raises:
            ConflictError: When it was something else before.
            CallClosed: When the call is over.
        """
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
        """Return what was at a path before this layer changed it, and pin nothing."""
        with self._lock:
            self._check_open()
            return self._seen[path] if path in self._seen else self._base.look(path)

    def names(self, path: str) -> Mapping[str, Kind]:
        """Return what a directory holds."""
        with self._lock:
            self._check_open()
            if not self._made:
                return self._base.names(path)
            names: dict[str, Kind] = {}
            if not self._shows_nothing_below(path):
                names.update(self._base.names(path))
            for name in self._made_in.get(path, ()):
                node = self._made[paths.join(path, name)]
                if node is None:
                    names.pop(name, None)
                else:
                    names[name] = node.kind
            return names

    def hidden(self, path: str) -> Mapping[str, str]:
        """Return the names in a directory that no path here can hold, each with the reason."""
        with self._lock:
            self._check_open()
            return {} if self._shows_nothing_below(path) else self._base.hidden(path)

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        """Return both, `names` and `hidden`."""
        with self._lock:
            self._check_open()
            return super().contents(path) if self._made else self._base.contents(path)

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        """Yield what is at names of a directory."""
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
        """Return why a path cannot be changed here, or None when it can."""
        with self._lock:
            self._check_open()
            return self.attached.refusal(path) or self._base.readonly(path)

    def check_changeable(self, directory: str) -> None:
        """Check that what a directory holds can be changed; of one not there, what is above it."""
        node = self._made.get(directory)
        # One that this call has given such a mode; whether it can is found out by the commit.
        if node is None or not node.keeps or not node.is_open:
            self._base.check_changeable(directory)

    def notice(self) -> str | None:
        """Return a notice for users of this tree, such as a commit that is stuck."""
        return self._base.notice()

    def unchanged(self, path: str, version: object | None) -> bool:
        """Tell whether a path is still, in this layer, in the state of a version.

        Whether the base is still what this layer has seen is found out when it is committed.
        """
        with self._lock:
            self._check_open()
            if path in self._made:
                return version_of(self._made[path]) == version
            if self._is_covered(path):
                return version is None
            return path not in self._seen or version_of(self._seen[path]) == version

    # --- changes ---

    def put(self, path: str, node: Node) -> None:
        """Put something at a path, whatever was there."""
        with self._lock:
            self._check_open()
            self._set(path, node)

    def remove(self, path: str) -> None:
        """Remove what is at a path, a directory after what it holds."""
        with self._lock:
            self._check_open()
            self._set(path, None)

    def changes(self, key: str | None = None) -> Changes:
        """Return what was seen and what is to be made of it, sorted by path."""
        with self._lock:
            self._check_open()
            made: list[Change] = []
            # A directory before what it holds.
            for path in sorted(self._made):
                before = self._seen.get(path)
                kind = before.kind if before is not None else None
                made.append(Change(path, version_of(before), kind, self._made[path]))
            seen = {path: version_of(node) for path, node in self._seen.items()}
            return Changes(seen, made, key, self.watches)

    def before(self, path: str) -> Node | None:
        """Return what was at a path before this layer changed it."""
        with self._lock:
            return self._seen.get(path)

    def absorb(self, changes: Changes) -> None:
        """Take over what a layer on this one has made."""
        with self._lock:
            self._check_open()
            self.watches += tuple(changes.watches)
            for change in changes.made:
                self._set(change.path, change.after)

    def watch(self, mark: WatchMark) -> None:
        """Have a watch decide, too, whether what was read is as it was."""
        with self._lock:
            if self._closed is not None:
                mark.close()
            self._check_open()
            self.watches += (mark,)

    def made(self) -> Mapping[str, Node | None]:
        """Return what is made so far, by path; None for what is removed."""
        with self._lock:
            return dict(self._made)

    def make_only(self, made: Mapping[str, Node | None]) -> None:
        """Take earlier changes in place of the present ones; what was seen since stays so."""
        with self._lock:
            self._check_open()
            self._made.clear()
            self._made_in.clear()
            for path, node in made.items():
                self._set(path, node)

    def forget_seen(self) -> None:
        """Let go of every pin that nothing is written over."""
        with self._lock:
            self._seen = {path: node for path, node in self._seen.items() if path in self._made}

    def close(self, reason: str) -> None:
        """Let nobody use it any more: every access raises `CallClosed`."""
        with self._lock:
            self._closed = self._closed or reason
            # What a program has left elsewhere goes as soon as nobody needs it.
            self._made, self._made_in = {}, {}

    def _check_open(self) -> None:
        if self._closed is not None:
            raise CallClosed(self._closed)

    def _set(self, path: str, node: Node | None) -> None:
        self.changed_late = True
        directory, name = paths.split(path)
        if node is None and self._seen.get(path) is None:
            # Made here and gone again: the base never had it.
            self._made.pop(path, None)
            self._made_in.get(directory, {}).pop(name, None)
            return
        if node is not None and node.keeps and self._covers(path):
            node = replace(node, keeps=False)
        self._made[path] = node
        self._made_in.setdefault(directory, {})[name] = None

    def _covers(self, path: str) -> bool:
        """Tell whether a path is changed here, and nothing of the base shows beneath it."""
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
    """A moment of a workspace; it holds the nodes that commits replace, None for absence."""

    __slots__ = ("__weakref__", "before")

    def __init__(self) -> None:
        self.before: dict[str, Node | None] = {}


class Checkpoints:
    """The checkpoints that are held; commits note in them what they replace."""

    def __init__(self) -> None:
        self._held: weakref.WeakSet[Checkpoint] = weakref.WeakSet()
        self._lock = threading.Lock()

    def make(self) -> Checkpoint:
        """Return a checkpoint of now."""
        checkpoint = Checkpoint()
        with self._lock:
            self._held.add(checkpoint)
        return checkpoint

    def kept(self, layer: Layer, changes: Changes) -> Mapping[str, Node | None]:
        """Return the nodes that a layer replaces, by path, where a checkpoint is held."""
        if not self._held:
            return {}
        return {change.path: _at_hand(layer.before(change.path)) for change in changes.made}

    def commit(self, transaction: Transaction, replaced: Mapping[str, Node | None]) -> None:
        """Commit, and note in the held checkpoints what that has replaced."""
        if not replaced:
            transaction.commit()
            return
        # As one step: the next commit's note must not come before this one's.
        with self._lock:
            transaction.commit()
            for checkpoint in self._held:
                for path, node in replaced.items():
                    checkpoint.before.setdefault(path, node)

    def before(self, checkpoint: Checkpoint) -> Mapping[str, Node | None]:
        """Return the replaced nodes that a checkpoint has noted so far."""
        with self._lock:
            return dict(checkpoint.before)


def _at_hand(node: Node | None) -> Node | None:
    if node is None or node.content is None:
        return node
    return replace(node, content=kept(node.content))
