"""The changes of a call's files as text, and their repetition in another call."""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs import SnapshotError
from toolstile_hookspecs.execution.change_set import MOST_BYTES
from toolstile_plugins.vfs.nodes import InMemory, Node, directory_node, file_node, link_node
from toolstile_plugins.vfs.write_set import Layer, conflict


@dataclass(frozen=True, slots=True)
class Told:
    """A path that a call has made or removed.

    Args:
        kind: What is there now; None for nothing.
        mode: Its permissions; None for the usual ones.
        content: The content of a file, or the text of a link, in base64.
        modified: When a file that keeps its time last changed, in nanoseconds since 1970.
        keeps: Whether a directory stays with what it holds, and only its mode changes.
    """

    kind: Literal["file", "directory", "link"] | None
    mode: int | None = None
    content: str = ""
    modified: int | None = None
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class ToldChanges:
    """The changes of a call's files.

    Args:
        seen: What was at each path that the call looked at: the SHA-256 of a file, where a link
            leads, else its kind; None for nothing.
        made: What the call made of paths.
    """

    seen: dict[str, str | None]
    made: dict[str, Told]


def told(layer: Layer) -> str:
    """Return the changes of a layer, and what they stand on.

    Raises:
        SnapshotError: It made something else than files, directories and links, or very much.
    """
    nodes = layer.made()
    size = sum(node.content.size for node in nodes.values() if node and node.content)
    if size > MOST_BYTES:
        raise SnapshotError(f"The changed files have {size} bytes, too many to be told.")
    seen = {path: _state_of(layer.before(path)) for path in layer.changes().seen}
    made = {path: _told(path, node) for path, node in nodes.items()}
    return _adapter().dump_json(ToldChanges(seen, made)).decode()


def redo(layer: Layer, text: str) -> None:
    """Make told changes on a layer that has made none.

    Raises:
        ConflictError: When a path that the other call looked at has changed; names all of them.
        SnapshotError: When the text is not what `told` returned.
    """
    try:
        changes = _adapter().validate_json(text)
    except ValidationError as error:
        raise SnapshotError("These are not the changes of a workspace's files.") from error
    moved = [path for path, state in changes.seen.items() if _state_of(layer.look(path)) != state]
    if moved:
        raise conflict(moved)
    # What a directory held goes before it, and it is made before what it will hold.
    removed = [path for path in sorted(changes.made, reverse=True) if _is_removed(changes, path)]
    for path in removed:
        layer.remove(path)
    # A file of which the place or mode changes keeps its content, by which a diff knows it again.
    moved_from = {changes.seen.get(path): layer.before(path) for path in removed}
    for path in sorted(changes.made.keys() - removed):
        made = _node_of(changes.made[path])
        state = _state_of(made)
        stays = changes.seen.get(path) == state
        source = layer.before(path) if stays else moved_from.get(state)
        layer.put(path, made if source is None else replace(made, content=source.content))


def _is_removed(changes: ToldChanges, path: str) -> bool:
    return changes.made[path].kind is None


def _state_of(node: Node | None) -> str | None:
    if node is None:
        return None
    if node.kind == "link":
        return f"link {b64encode(os.fsencode(node.target)).decode()}"
    if node.content is None:
        return node.kind
    return node.content.digest or hashlib.sha256(node.content.read()).hexdigest()


def _told(path: str, node: Node | None) -> Told:
    if node is None:
        return Told(None)
    if node.kind == "other":
        raise SnapshotError(f"{path} is no file, directory or link, and cannot be told.")
    content = os.fsencode(node.target) if node.content is None else node.content.read()
    modified = node.modified if isinstance(node.modified, int) else None
    return Told(node.kind, node.mode, b64encode(content).decode(), modified, node.keeps)


def _node_of(made: Told) -> Node:
    if made.kind == "directory":
        return replace(directory_node(mode=made.mode), keeps=made.keeps)
    content = b64decode(made.content)
    if made.kind == "link":
        return link_node(os.fsdecode(content), made.modified)
    return file_node(InMemory(content), made.modified, made.mode)


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[ToldChanges]:
    return TypeAdapter(ToldChanges)
