"""Checkpoints of a workspace, kept as the nodes that commits have replaced since."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace

from toolstile_plugins.vfs.backends.base import Changes, Transaction
from toolstile_plugins.vfs.nodes import (
    Content,
    InMemory,
    Node,
    Spooled,
    WriteStream,
    copy_stream,
    version_of,
)
from toolstile_plugins.vfs.write_set import Layer


def kept(content: Content) -> Content:
    """Return a content that stays readable, read now if necessary; raises `OSError`."""
    if isinstance(content, (InMemory, Spooled)):
        return content
    read: list[Content] = []
    with content.open() as source, WriteStream(read.append) as stream:
        copy_stream(source, stream)
    return read[0]


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


def put_back(
    layer: Layer, before: Mapping[str, Node | None], make_parents: Callable[[str], None]
) -> list[str]:
    """Make a layer show again what was there.

    Returns:
        The paths of FIFOs and the like, which cannot be made again.
    """
    changed: list[str] = []
    for path, node in sorted(before.items()):
        there = layer.look(path)
        if version_of(there) != version_of(node):
            changed.append(path)
        elif there is not None and node is not None and there.mode != node.mode:
            # A directory of which only the mode has changed.
            layer.put(path, replace(there, mode=node.mode, keeps=True))
    # A directory after what it holds, and to be made before that.
    for path in reversed(changed):
        if layer.look(path) is not None:
            layer.remove(path)
    lost: list[str] = []
    for path in changed:
        node = before[path]
        if node is not None and node.kind == "other":
            lost.append(path)
        elif node is not None:
            make_parents(path)
            layer.put(path, node)
    return lost


def _at_hand(node: Node | None) -> Node | None:
    if node is None or node.content is None:
        return node
    return replace(node, content=kept(node.content))
