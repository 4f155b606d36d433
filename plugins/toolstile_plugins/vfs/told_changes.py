"""The changes of a call's files as text, and their repetition in another call."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs import SnapshotError
from toolstile_plugins.vfs.nodes import InMemory, Node, directory_node, file_node
from toolstile_plugins.vfs.write_set import Layer, conflict


@dataclass(frozen=True, slots=True)
class Told:
    """A path that a call has made or removed.

    Args:
        kind: What is there now; None for nothing.
        mode: Its permissions; None for the usual ones.
        content: The content of a file, in base64.
    """

    kind: Literal["file", "directory"] | None
    mode: int | None = None
    content: str = ""


@dataclass(frozen=True, slots=True)
class ToldChanges:
    """The changes of a call's files.

    Args:
        seen: What was at each path that the call looked at: the SHA-256 of a file, else its kind;
            None for nothing.
        made: What the call made of paths.
    """

    seen: dict[str, str | None]
    made: dict[str, Told]


def told(layer: Layer) -> str:
    """Return the changes of a layer, and what they stand on.

    Raises:
        SnapshotError: It made what is neither file nor directory.
    """
    seen = {path: _state_of(layer.before(path)) for path in layer.changes().seen}
    made = {path: _told(path, node) for path, node in layer.made().items()}
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
    # A file that was only moved keeps its content, by which a diff knows it again.
    moved_from = {changes.seen.get(path): layer.before(path) for path in removed}
    for path in sorted(changes.made.keys() - removed):
        made = _node_of(changes.made[path])
        source = moved_from.get(_state_of(made))
        layer.put(path, made if source is None else replace(made, content=source.content))


def _is_removed(changes: ToldChanges, path: str) -> bool:
    return changes.made[path].kind is None


def _state_of(node: Node | None) -> str | None:
    if node is None:
        return None
    if node.content is None:
        return node.kind
    return node.content.digest or hashlib.sha256(node.content.read()).hexdigest()


def _told(path: str, node: Node | None) -> Told:
    if node is None:
        return Told(None)
    if node.kind == "other":
        raise SnapshotError(f"{path} is neither a file nor a directory, and cannot be told.")
    content = b"" if node.content is None else node.content.read()
    return Told(node.kind, node.mode, b64encode(content).decode())


def _node_of(made: Told) -> Node:
    if made.kind == "directory":
        return directory_node(mode=made.mode)
    return file_node(InMemory(b64decode(made.content)), mode=made.mode)


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[ToldChanges]:
    return TypeAdapter(ToldChanges)
