"""The reverse of a call's changed files: written as text, and made on another call's branch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from toolstile_hookspecs import SnapshotError, ToolError
from toolstile_hookspecs.execution.change_set import MOST_BYTES
from toolstile_hookspecs.execution.undo import Difference
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import Change
from toolstile_plugins.vfs.diff import Told, ToldChanges, node_told, state_of, told_of
from toolstile_plugins.vfs.nodes import PERMISSIONS, InMemory, Node, file_node
from toolstile_plugins.vfs.write_set import Layer

TIMED: Final = " bytes, written at "
"""The text between size and time in the state of a large file."""
MODE: Final = " with mode "
"""The text before the mode in a state."""
_HASHED_BYTES: Final = 1 << 20
_DIGEST: Final = re.compile("^([0-9a-f]{12})[0-9a-f]{52}")


@dataclass(frozen=True, slots=True)
class Reverse(ToldChanges):
    """The reverse of a call's changes: the states that it left are `seen`, the former are `made`.

    A former file on disk has no content here, because the commit keeps it.
    """

    root: str | None = None  # the directory of the workspace


def reverse_of(layer: Layer, root: str | None, *, with_contents: bool) -> str:
    """Return the reverse of a layer's changes as text; `SnapshotError` if there is none."""
    changes = layer.changes().made
    before = [layer.before(change.path) for change in changes if with_contents]
    if sum(node.content.size for node in before if node and node.content) > MOST_BYTES:
        raise SnapshotError("The former files have too many bytes to keep.")
    left = {change.path: _state(change.after) for change in changes}
    former = {each.path: _former(layer.before(each.path), each, with_contents) for each in changes}
    return written(Reverse(left, former, root))


def written(reverse: Reverse) -> str:
    """Return a reverse as text."""
    return _adapter().dump_json(reverse).decode()


def _former(before: Node | None, change: Change, with_contents: bool) -> Told:  # noqa: FBT001 - of two
    if before is None or before.content is None or with_contents:
        return replace(told_of(change.path, before), keeps=change.keeps)
    # If only the mode changes, the commit keeps no content.
    keeps = change.after is not None and change.after.content == before.content
    return Told("file", before.mode, keeps=keeps)


def _state(node: Node | None, like: str = "") -> str | None:
    """Return the state of a path, with the time and the mode if a state has them that is alike."""
    if node is None:
        return None
    content = node.content
    # A large file that keeps its time is known by that, because reading it takes long.
    is_timed = content is not None and content.digest is None and isinstance(node.modified, int)
    is_large = content is not None and content.size > _HASHED_BYTES
    if content is not None and (TIMED in like if like else is_timed and is_large):
        state = f"{content.size}{TIMED}{node.modified}"
    else:
        state = state_of(node) or ""
    if node.kind == "link" or (like and MODE not in like):
        return state
    if node.mode is None:
        # A file that is new on this branch gets its mode with the commit, so any mode is alike.
        return state + "".join(like.partition(MODE)[1:])
    return f"{state}{MODE}{node.mode & PERMISSIONS:o}"


def take_back(  # noqa: C901 - one branch for each state of a path
    layer: Layer,
    root: str | None,
    put_back: Callable[[Mapping[str, Node | None]], object],
    text: str,
) -> tuple[list[str], list[Difference]]:
    """Give paths their former states unless others have changed them; return both kinds.

    `ToolError`: the changes were made in another workspace, or their contents are dropped.
    """
    reverse, kept = _read(text)
    if reverse.root not in {None, root}:
        raise ToolError(
            "The files of this call lie in another workspace, so they cannot be undone here. This "
            "requires human intervention.",
            for_operator=f"Undo it with --workspace {reverse.root}.",
        )
    before: dict[str, Node | None] = {}
    differences: list[Difference] = []
    for path, told in reverse.made.items():
        there, left = layer.look(path), reverse.seen[path]
        if left is None and there is not None and told.kind == there.kind == "directory":
            # The call removed it, and others have made it again.
            continue
        if (now := _state(there, left or "")) != left:
            differences.append(Difference(path, f"the call left {_shown(left)}", _shown(now)))
        elif told.kind != "file" or kept is None:
            before[path] = None if told.kind is None else node_told(told)
        elif told.keeps and there is not None:
            before[path] = replace(there, version=object(), mode=told.mode)
        elif path in kept and (former := _former_content(*kept[path])) is not None:
            before[path] = file_node(InMemory(former), None, told.mode)
        else:
            now = "changed by others after the call" if path in kept else "not kept any more"
            differences.append(Difference(path, "its former content", now))
    # A directory that the call made stays while others have entries in it.
    for path in sorted((each for each in before if before[each] is None), reverse=True):
        if (there := layer.look(path)) is not None and there.kind == "directory":
            names, hidden = layer.contents(path)
            if hidden or any(before.get(paths.join(path, name), there) for name in names):
                del before[path]
    put_back(before)
    return list(before), differences


def _shown(state: str | None) -> str:
    if state is None:
        return "nothing"
    return "a link" if state.startswith("link ") else _DIGEST.sub(r"SHA-256 \1", state)


def _read(text: str) -> tuple[Reverse, dict[str, tuple[Path, dict[str, Any]]] | None]:
    """Return the reverse, and the files of former contents by path; None if the text has them."""
    if text.startswith("{"):
        return _adapter().validate_json(text), None
    try:
        record: dict[str, Any] = json.loads(Path(text, "decided").read_bytes())
    except OSError as error:
        raise ToolError("The former files of this call are not kept any more.") from error
    return _adapter().validate_json(record["undo"]["reverse"]), dict(_kept(Path(text), record))


def _kept(entry: Path, record: dict[str, Any]) -> Iterator[tuple[str, tuple[Path, dict[str, Any]]]]:
    for operation in record["operations"]:
        # An exchange leaves the former content in the place of the new one.
        for name in ("new", "old"):
            if (file := entry / f"{name}-{operation['slot']}").exists():
                yield operation["path"], (file, operation.get("before") or {})


def _former_content(file: Path, was: dict[str, Any]) -> bytes | None:
    """Return a kept content, None if others have changed it by a hard link or an open file."""
    content, status = file.read_bytes(), file.stat()
    # A large file has no digest, and the store of undos may have linked it to an equal one.
    is_timed = was.get("inode") == status.st_ino and status.st_mtime_ns != was["mtime_ns"]
    digest = was.get("digest")
    is_same = not is_timed if digest is None else hashlib.sha256(content).hexdigest() == digest
    return content if is_same else None


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Reverse]:
    return TypeAdapter(Reverse)
