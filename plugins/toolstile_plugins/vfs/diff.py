"""The changes of a branch: diffs for people, lists for policies, and text to repeat them by."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs import FileStat, SnapshotError
from toolstile_hookspecs.execution.change_set import MOST_BYTES
from toolstile_hookspecs.services.workspace import FileChange, FileChanges
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import Change, conflict
from toolstile_plugins.vfs.nodes import (
    PERMISSIONS,
    Content,
    InMemory,
    Node,
    directory_node,
    escaped,
    file_node,
    link_node,
)
from toolstile_plugins.vfs.paths import Pattern
from toolstile_plugins.vfs.text_files import encoding_of, lines_of, looks_binary, text_of
from toolstile_plugins.vfs.write_set import Layer

#: Because comparing takes more time than the product of the lengths, in the worst case.
_MAX_BYTES: Final = 512 * 1024
_MAX_LINES: Final = 5_000
_MOST_RULES: Final = 1_000

#: A person reads no more. Later files are named with a hash, which binds an approval.
_MAX_CHARACTERS: Final = 256 * 1024


def diff(layer: Layer, first: Collection[str] = ()) -> str:
    """Return a unified diff of text files and links; of everything else one line each.

    It begins with the paths of `first`, which are always shown whole. Of very large changes, the
    files after the first ones have one line each. One line at the end stands for several changes
    of git's own files, of caches and of files that git ignores.

    A changed mode, or an unusual mode of a new file, has the lines that git writes.
    """
    changes = sorted(layer.changes().made, key=lambda change: change.path not in first)
    moved = dict(_moves(layer, changes))
    origins = set(moved.values())
    folded = _folded(layer, [each for each in changes if each.path not in first])
    parts: list[str] = []
    hidden: list[str] = []
    counts = Counter[str]()
    shown = 0
    for change in changes:
        path, after = change.path, change.after
        # Because a file that moves between a cache and the sources must be shown.
        is_hidden = path in folded and moved.get(path, path) in folded
        into = hidden if is_hidden else parts
        if is_hidden and path not in origins:
            counts[folded[path]] += not _is_directory(change)
        if path in moved:
            into.append(f"moved {moved[path]} to {path}\n")
            into.append(_modes(path, layer.before(moved[path]), after))
        elif change.keeps or change.only_empties:
            into.append(_modes(path, layer.before(path), after))
        elif path not in origins:
            is_short = is_hidden or shown > _MAX_CHARACTERS
            into.append(_one(path, layer.before(path), after, short=is_short))
            shown += 0 if is_hidden else len(into[-1])
    if hidden:
        # Because an approval is bound to this text, the digest stands for the hidden changes.
        digest = hashlib.sha256("".join(hidden).encode(errors="surrogatepass")).hexdigest()
        names = ", ".join(f"{counted(count, 'file')} {where}" for where, count in counts.items())
        parts.append(f"not shown: {names} (SHA-256 {digest})\n")
    return "".join(parts)


_CACHES: Final = re.compile(
    r"(?:^|/)(?:__pycache__|node_modules|\.?venv|\.(?:\w+_cache|cache|tox|nox|hypothesis|gradle))/"
)


def _folded(layer: Layer, changes: Sequence[Change]) -> Mapping[str, str]:
    """Return the paths that one line stands for, each with its kind; none for a single path."""
    is_ignored = _ignored_by_git(layer)
    found: dict[str, str] = {}
    for change in changes:
        if "/.git/" in f"/{change.path}/":
            found[change.path] = "in .git/"
        elif _CACHES.search(f"{change.path}/"):
            found[change.path] = "in caches"
        elif is_ignored(change.path, "/-" if _is_directory(change) else ""):
            found[change.path] = "that git ignores"
    return found if len(found) > 1 else {}


def _is_directory(change: Change) -> bool:
    return (change.kind if change.after is None else change.after.kind) == "directory"


def _ignored_by_git(layer: Layer) -> Callable[[str, str], bool]:
    """Return the test of paths by the `.gitignore` files that were there before the call."""

    @cache
    def rules_in(directory: str) -> Sequence[tuple[Pattern, bool]]:
        node = layer.first(paths.join(directory, ".gitignore"))
        content = b"" if node is None or node.content is None else node.content.read()
        rules: list[tuple[Pattern, bool]] = []
        for line in content.decode(errors="replace").splitlines()[:_MOST_RULES]:
            glob = line.rstrip().removeprefix("!")
            if glob.strip("/") and not glob.startswith("#"):
                depth = "" if "/" in glob.rstrip("/") else "**/"
                spelt = f"{depth}{glob.lstrip('/')}{'*' if glob.endswith('/') else ''}"
                with suppress(OSError, ValueError):
                    rules.append((Pattern(paths.join(directory, spelt)), line[0] != "!"))
        return rules

    @cache
    def is_ignored(path: str, beneath: str) -> bool:
        above = list(paths.ancestors(path))
        if above and is_ignored(above[0], "/-"):
            return True
        rules = [rule for at in ("", *reversed(above)) for rule in rules_in(at)]
        spellings = {path, path + beneath}
        found = [ignores for rule, ignores in rules if any(map(rule.matches, spellings))]
        return bool(found) and found[-1]

    return is_ignored


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
        index = ""
        if before is not None:
            blobs = (os.fsencode(node.target) for node in (before, after))
            data = (b"blob %d\0%s" % (len(blob), blob) for blob in blobs)
            ids = [hashlib.sha1(each, usedforsecurity=False).hexdigest()[:7] for each in data]
            index = f"{_header(path)}index {'..'.join(ids)} {_mode(after)}\n"
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
    if after is None or (before is None and _is_usual(after)):
        return ""
    if before is None:
        return f"{_header(path)}new file mode {_mode(after)}\n"
    is_same = after.mode is None and (_is_usual(before) or after.kind == "directory")
    if is_same or _mode(before) == _mode(after):
        return ""
    return f"{_header(path)}old mode {_mode(before)}\nnew mode {_mode(after)}\n"


def _header(path: str) -> str:
    return f"diff --git a/{path} b/{path}\n"


def _is_usual(node: Node) -> bool:
    return int(_mode(node), 8) in _USUAL


def _mode(node: Node) -> str:
    mode = _FORMS.get(node.kind, 0)
    return f"{mode if node.mode is None else mode & ~PERMISSIONS | node.mode:06o}"


# --- For policies


def file_changes(layer: Layer, root: str | None) -> FileChanges:
    """Return the changes of a layer over a directory of this machine, or over memory."""

    def look(path: str, before: bool) -> Node | None:  # noqa: FBT001 - the contract's
        # Pinned, because parallel calls may make together what none makes alone.
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
    """Return whether a changed path has its former state again."""
    if before is None or after is None or before.kind != after.kind:
        return before is after
    modes = {node.mode & PERMISSIONS for node in (before, after) if node.mode is not None}
    if len(modes) > 1 or before.target != after.target or before.kind == "other":
        return False
    old, new = before.content, after.content
    if old is None or new is None or old == new:
        return True
    try:
        return old.size == new.size and _digest(old) == _digest(new)
    except PermissionError:
        # A file that may be written need not be readable.
        return False


# --- Texts


def _is_binary(content: Content | None) -> bool:
    if content is None:
        return False
    if content.size <= _MAX_BYTES:
        return encoding_of(content.read()) is None
    with content.open() as stream:
        return looks_binary(stream.read(8192))


def _lines(content: Content | None) -> list[str] | None:
    """Return a text's lines; None for a binary file or a file too large to compare."""
    if content is None:
        return []
    if content.size > _MAX_BYTES:
        return None
    data = content.read()
    encoding = encoding_of(data)
    lines = [] if encoding is None else lines_of(text_of(data, encoding))
    return None if encoding is None or len(lines) > _MAX_LINES else lines


@dataclass(frozen=True, slots=True)
class Told:
    """A path that a call has made or removed."""

    kind: Literal["file", "directory", "link"] | None  # its new kind; None if it was removed
    mode: int | None = None  # its permissions; None for the usual ones
    content: str = ""  # the content of a file, or the text of a link, in base64
    # When a file that keeps its time last changed, in nanoseconds since 1970.
    modified: int | None = None
    keeps: bool = False  # whether a directory stays with its entries and only its mode changes


@dataclass(frozen=True, slots=True)
class ToldChanges:
    """The changes of a call's files."""

    # The state of each path that the call read: the SHA-256 of a file, the text of a link, else the
    # kind; None for absence.
    seen: dict[str, str | None]
    made: dict[str, Told]


def told(layer: Layer) -> str:
    """Return the changes of a layer and its reads as text, or raise `SnapshotError`."""
    nodes = layer.made()
    size = sum(node.content.size for node in nodes.values() if node and node.content)
    if size > MOST_BYTES:
        raise SnapshotError(f"The changed files have {size} bytes, too many to record.")
    seen = {path: state_of(layer.before(path)) for path in layer.changes().seen}
    made = {path: told_of(path, node) for path, node in nodes.items()}
    return _adapter().dump_json(ToldChanges(seen, made)).decode()


def redo(layer: Layer, text: str) -> None:
    """Make recorded changes on a layer without changes; `SnapshotError` for another text.

    A `ConflictError` names all paths that the other call read and that have changed.
    """
    try:
        changes = _adapter().validate_json(text)
    except ValidationError as error:
        raise SnapshotError("These are not the changes of a workspace's files.") from error
    moved = [path for path, state in changes.seen.items() if state_of(layer.look(path)) != state]
    if moved:
        raise conflict(moved)
    # A directory is removed after its entries, and made before them.
    gone = {path for path, made in changes.made.items() if made.kind is None}
    removed = sorted(gone, reverse=True)
    for path in removed:
        layer.remove(path)
    # A file whose path or mode changes keeps its content object, so that a diff finds the move.
    moved_from = {changes.seen.get(path): layer.before(path) for path in removed}
    for path in sorted(changes.made.keys() - gone):
        made = node_told(changes.made[path])
        state = state_of(made)
        stays = changes.seen.get(path) == state
        source = layer.before(path) if stays else moved_from.get(state)
        layer.put(path, made if source is None else replace(made, content=source.content))


def state_of(node: Node | None) -> str | None:
    """Return the SHA-256 of a file, the text of a link, else the kind; None for absence."""
    if node is None:
        return None
    if node.kind == "link":
        return f"link {b64encode(os.fsencode(node.target)).decode()}"
    if node.content is None:
        return node.kind
    return _digest(node.content)


def told_of(path: str, node: Node | None) -> Told:
    """Return the state of a path as text; raises `SnapshotError` for FIFOs and the like."""
    if node is None:
        return Told(None)
    if node.kind == "other":
        raise SnapshotError(f"{path} is not a file, directory or link, and cannot be recorded.")
    content = os.fsencode(node.target) if node.content is None else node.content.read()
    modified = node.modified if isinstance(node.modified, int) else None
    return Told(node.kind, node.mode, b64encode(content).decode(), modified, node.keeps)


def node_told(made: Told) -> Node:
    """Return the node that a text stands for."""
    if made.kind == "directory":
        return replace(directory_node(mode=made.mode), keeps=made.keeps)
    content = b64decode(made.content)
    if made.kind == "link":
        return link_node(os.fsdecode(content), made.modified)
    return file_node(InMemory(content), made.modified, made.mode)


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[ToldChanges]:
    return TypeAdapter(ToldChanges)
