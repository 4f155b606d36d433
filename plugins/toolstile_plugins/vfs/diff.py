"""The changes of a branch: diffs for people, and lists for policies."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from toolstile_hookspecs import FileStat
from toolstile_hookspecs.services.file_changes import FileChange, FileChanges
from toolstile_plugins.vfs.backends.base import Change
from toolstile_plugins.vfs.nodes import PERMISSIONS, Content, Node, escaped
from toolstile_plugins.vfs.text_files import encoding_of, lines_of, looks_binary, text_of
from toolstile_plugins.vfs.write_set import Layer

#: Comparing takes longer than the product of the lengths in the worst case.
_MAX_BYTES: Final = 512 * 1024
_MAX_LINES: Final = 5_000

#: A person reads no more; what comes after is named, with a hash by which it is approved.
_MAX_CHARACTERS: Final = 256 * 1024


def diff(layer: Layer, first: Collection[str] = ()) -> str:
    """Return a unified diff of text files and links; of everything else one line each.

    It begins with some paths, which are shown whole where much has changed.

    What changes a mode, and what is new with another one than the usual, says so as git does.
    Where much has changed, one line each stands also for files after the first.
    """
    changes = sorted(layer.changes().made, key=lambda change: change.path not in first)
    moved = dict(_moves(layer, changes))
    origins = set(moved.values())
    parts: list[str] = []
    shown = 0
    for change in changes:
        path, after = change.path, change.after
        if path in moved:
            parts.append(f"moved {moved[path]} to {path}\n")
            parts.append(_modes(path, layer.before(moved[path]), after))
        elif change.keeps or change.only_empties:
            parts.append(_modes(path, layer.before(path), after))
        elif path not in origins:
            parts.append(_one(path, layer.before(path), after, short=shown > _MAX_CHARACTERS))
            shown += len(parts[-1])
    return "".join(parts)


def _moves(layer: Layer, changes: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """Yield target and source of the files whose content only changed its place."""
    gone: dict[Content, str] = {}
    for change in changes:
        before = layer.before(change.path)
        if change.after is None and before is not None and before.content is not None:
            gone[before.content] = change.path
    for change in changes:
        content = change.after.content if change.after is not None else None
        if content is not None and content in gone and change.kind is None:
            yield change.path, gone.pop(content)


def _one(path: str, before: Node | None, after: Node | None, *, short: bool) -> str:
    if after is None:
        return "" if before is None else _deletion(path, before)
    if before is not None and before.kind != after.kind:
        return _deletion(path, before) + _one(path, None, after, short=short)
    if after.kind == "directory":
        mode = "" if _is_usual(after) else f" (mode {_mode(after)[-3:]})"
        return f"created {path}/{mode}\n"
    modes = _modes(path, before, after)
    if after.kind == "link":
        former = None if before is None else [escaped(before.target)]
        index = "" if before is None else _index(path, before, after)
        return modes + index + _unified(path, former, [escaped(after.target)])
    old = before.content if before is not None else None
    return modes + _content(path, old, after.content, short=short)


def _deletion(path: str, node: Node) -> str:
    if node.kind == "link":
        return f"deleted {path} (a link to {escaped(node.target)})\n"
    slash = "/" if node.kind == "directory" else ""
    size = f" ({node.content.size} bytes)" if node.content is not None else ""
    return f"deleted {path}{slash}{size}\n"


def _content(path: str, old: Content | None, new: Content | None, *, short: bool) -> str:
    if new is None or old == new:
        return ""
    verb = "created" if old is None else "changed"
    sizes = f"{new.size} bytes" if old is None else f"{old.size} to {new.size} bytes"
    if short:
        return f"{verb} {path} ({sizes}, SHA-256 {_digest(new)})\n"
    texts = _lines(old), _lines(new)
    if texts[0] is None or texts[1] is None:
        form = "binary" if _is_binary(old) or _is_binary(new) else "large"
        return f"{verb} {path} ({form}, {sizes}, SHA-256 {_digest(new)})\n"
    if old is None and not texts[1]:
        return f"created {path} (empty)\n"
    return _unified(path, None if old is None else texts[0], texts[1])


def _digest(content: Content) -> str:
    if content.digest is not None:
        return content.digest
    digest = hashlib.sha256()
    with content.open() as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _unified(path: str, old: list[str] | None, new: list[str]) -> str:
    source = "/dev/null" if old is None else f"a/{path}"
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old or [], new, source, f"b/{path}")
    )


# --- Modes, as git writes them


_FORMS: Final = {"file": 0o100644, "directory": 0o040755, "link": 0o120000}
_USUAL: Final = frozenset({0o100644, 0o100664, 0o040755, 0o040775})


def _modes(path: str, before: Node | None, after: Node | None) -> str:
    """Return the lines that tell of a mode: a changed one, or a new one that is not the usual."""
    if after is None or (before is None and _is_usual(after)):
        return ""
    if before is None:
        return f"{_header(path)}new file mode {_mode(after)}\n"
    is_same = after.mode is None and (_is_usual(before) or after.kind == "directory")
    if is_same or _mode(before) == _mode(after):
        return ""
    return f"{_header(path)}old mode {_mode(before)}\nnew mode {_mode(after)}\n"


def _index(path: str, before: Node, after: Node) -> str:
    ids = [_object_id(os.fsencode(node.target))[:7] for node in (before, after)]
    return f"{_header(path)}index {'..'.join(ids)} {_mode(after)}\n"


def _header(path: str) -> str:
    return f"diff --git a/{path} b/{path}\n"


def _is_usual(node: Node) -> bool:
    return int(_mode(node), 8) in _USUAL


def _mode(node: Node) -> str:
    mode = _FORMS.get(node.kind, 0)
    return f"{mode if node.mode is None else mode & ~PERMISSIONS | node.mode:06o}"


def _object_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()


# --- For policies


def file_changes(layer: Layer, root: str | None) -> FileChanges:
    """Return the changes of a layer over a directory of this machine, or over memory."""

    def look(path: str, before: bool) -> Node | None:  # noqa: FBT001 - the contract's
        # Pinned, as calls beside this one may make together what none of them makes alone.
        return layer.first(path) if before else layer.look(path)

    def stat(path: str, before: bool) -> FileStat | None:  # noqa: FBT001 - the contract's
        node = look(path, before)
        return None if node is None else node.stat(path, readonly=False)

    def read(path: str, before: bool) -> bytes | None:  # noqa: FBT001 - the contract's
        node = look(path, before)
        return None if node is None or node.content is None else node.content.read()

    made = [
        FileChange(path, stat(path, True), stat(path, False))  # noqa: FBT003 - see above
        for path, node in sorted(layer.made().items())
        if not _is_same(layer.before(path), node)
    ]
    return FileChanges(made, stat, read, root)


def _is_same(before: Node | None, after: Node | None) -> bool:
    """Tell whether a path is as it was, though something was put there."""
    if before is None or after is None or before.kind != after.kind:
        return before is after
    modes = {node.mode & PERMISSIONS for node in (before, after) if node.mode is not None}
    if len(modes) > 1 or before.target != after.target or before.kind == "other":
        return False
    old, new = before.content, after.content
    if old is None or new is None or old == new:
        return True
    return old.size == new.size and _digest(old) == _digest(new)


# --- Texts


def _is_binary(content: Content | None) -> bool:
    if content is None:
        return False
    if content.size <= _MAX_BYTES:
        return encoding_of(content.read()) is None
    with content.open() as stream:
        return looks_binary(stream.read(8192))


def _lines(content: Content | None) -> list[str] | None:
    """Return a text's lines; None for what is binary or too large to compare."""
    if content is None:
        return []
    if content.size > _MAX_BYTES:
        return None
    data = content.read()
    encoding = encoding_of(data)
    lines = [] if encoding is None else lines_of(text_of(data, encoding))
    return None if encoding is None or len(lines) > _MAX_LINES else lines
