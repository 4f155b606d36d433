"""The file system that a call works on: the same over every backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import BinaryIO, Final, Literal, cast

from toolstile_hookspecs import ConflictError, FileMatch, FileStat
from toolstile_hookspecs.services.workspace import Watch, WorkspaceLayers
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.vfs import paths, text_files as text
from toolstile_plugins.vfs.backends.base import WatchMark
from toolstile_plugins.vfs.nodes import (
    PERMISSIONS,
    Content,
    InMemory,
    Kind,
    Node,
    TakenFile,
    WriteStream,
    copy_stream,
    directory_node,
    escaped,
    file_node,
    kept,
    link_node,
    shown_target,
    version_of,
)
from toolstile_plugins.vfs.paths import Pattern
from toolstile_plugins.vfs.text_files import Search
from toolstile_plugins.vfs.write_set import Layer

_AT_ONCE: Final = 500


def in_order(
    directory: str,
    names: Sequence[str],
    nodes: Callable[[str, Sequence[str]], Mapping[str, Node] | Iterable[tuple[str, Node]]],
) -> Iterator[tuple[str, Node]]:
    """Yield the paths and nodes of names in a directory, in the order given.

    Lazily, because a page of them may be enough.
    """
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        found = dict(nodes(directory, some))
        for name in some:
            if name in found:
                yield paths.join(directory, name), found[name]


def content_of(path: str, node: Node) -> Content:
    """Return the content of a file; raises `PermissionError` for other kinds."""
    if node.kind == "link":
        raise PermissionError(f"{path} is {name_of(node)}{_instead(path, node)}")
    if node.content is None:
        raise PermissionError(f"{path} is {name_of(node)}, and cannot be opened here.")
    return node.content


def _instead(path: str, link: Node) -> str:
    """Return the end of a sentence that names the path where a link leads."""
    with suppress(OSError, ValueError):
        if not link.target.startswith("/"):
            there = paths.canonical(paths.join(paths.split(path)[0], link.target))
            if there != path:
                return f". Use {there or 'the root'} in its place, then retry."
    return ", and leads to no path that can be used here."


def name_of(node: Node) -> str:
    """Return the name of a node's kind in messages."""
    if node.kind == "other":
        return node.special or "neither file nor directory"
    if node.kind == "link":
        return f"a symbolic link to {shown_target(node.target)}, which is not followed"
    return "a file" if node.kind == "file" else "a directory"


def _no_directory(path: str, node: Node) -> OSError:
    if node.kind == "file":
        return NotADirectoryError(
            f"{path} is a file, not a directory, so nothing can lie beneath it."
        )
    if node.kind == "link":
        return PermissionError(f"{path} is {name_of(node)}{_instead(path, node)}")
    return PermissionError(f"{path} is {name_of(node)}, so nothing can lie beneath it.")


# --- Notes


_SHOWN: Final = 5


class Notes:
    """Collects notes for the end of a call."""

    __slots__ = ("_said", "left_out", "unsearched")

    def __init__(self) -> None:
        self._said: dict[str, None] = {}
        # Directories that could not be listed, and files that could not be searched, with reasons.
        self.left_out: dict[str, str] = {}
        self.unsearched: dict[str, str] = {}

    def say(self, text: str) -> None:
        self._said[text] = None

    def hidden(self, directory: str, names: Mapping[str, str]) -> None:
        """Note names in a directory that no path can hold, each with a reason."""
        if names:
            verb = "is" if len(names) == 1 else "are"
            self.say(
                f"{counted(len(names), 'entry', 'entries')} of {directory or 'the root'} {verb} "
                f"left out, as no path here can lead there: {_listed(names, ascii)}."
            )

    def all(self) -> Sequence[str]:
        said = list(self._said)
        said += _summed_up(self.left_out, "directory", "directories", "left out")
        said += _summed_up(self.unsearched, "file", "files", "not searched")
        return said


def _summed_up(reasons: dict[str, str], thing: str, things: str, fate: str) -> list[str]:
    if not reasons:
        return []
    verb = "was" if len(reasons) == 1 else "were"
    total = counted(len(reasons), thing, things)
    return [f"{total} {verb} {fate}: {_listed(reasons, str)}."]


def _listed(reasons: Mapping[str, str], show: Callable[[str], str]) -> str:
    shown = [f"{show(name)} ({reason})" for name, reason in islice(reasons.items(), _SHOWN)]
    more = len(reasons) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _reason(error: Exception) -> str:
    if isinstance(error, ConflictError):
        return "it was being changed"
    # Without the remedy, which is for a call of this one path.
    return str(error).partition(". ")[0].rstrip(".") or type(error).__name__


# --- The file system


#: The bits that a copied directory needs before entries can be put into it.
_OF_OWNER: Final = 0o700
_MAX_TARGET_BYTES: Final = 4095


class Overlay:
    """A `Filesystem` on a layer; its changes reach the base at the commit.

    Costs grow with the files a call changes, never with the tree.
    """

    __slots__ = ("_changeable", "_exclusive", "_layer", "_layers", "_notes", "_now", "_watch")

    def __init__(
        self,
        layer: Layer,
        now: Callable[[], datetime],
        exclusive: Callable[[], AbstractContextManager[str]],
        watch: Callable[[], WatchMark],
        layers: Callable[[], WorkspaceLayers],
    ) -> None:
        self._layer = layer
        self._exclusive = exclusive
        self._watch = watch
        self._layers = layers
        self._notes = Notes()
        self._now = now
        self._changeable: set[str] = set()

    # --- reading ---

    def read(self, path: str) -> str:
        path = paths.canonical(path)
        content, encoding = text.decode(self._file(path).read(), path)
        if encoding != "utf-8":
            title = text.TITLES[encoding]
            self._notes.say(f"{path} is not UTF-8; it is read, and stays, as {title}.")
        return content

    def read_bytes(self, path: str) -> bytes:
        return self._file(paths.canonical(path)).read()

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        path = paths.canonical(path)
        if mode == "rb":
            return self._file(path).open()
        if mode not in {"wb", "ab"}:
            raise ValueError(f"A file cannot be opened with mode {mode!r}; use rb, wb or ab.")
        before = self._check_file(path)
        stream = WriteStream(lambda content: self._place(path, self._check_file(path), content))
        if mode == "ab" and before is not None and before.content is not None:
            with before.content.open() as source:
                copy_stream(source, stream)
        return cast("BinaryIO", stream)

    def exists(self, path: str) -> bool:
        return self._layer.look(paths.canonical(path)) is not None

    def stat(self, path: str) -> FileStat:
        path = paths.canonical(path)
        return self._stat(path, self._node(path))

    def is_readonly(self, path: str) -> bool:
        path = paths.canonical(path)
        if self._layer.readonly(path) is not None:
            return True
        node = self._layer.look(path)
        return node is not None and node.readonly

    def list(self, path: str = "") -> Sequence[FileStat]:
        return list(self.stats(path, self.names(path)))

    def names(self, path: str = "") -> Sequence[str]:
        """Return the names in a directory, sorted, without looking at their nodes."""
        path = paths.canonical(path)
        self._check_directory(path)
        names, hidden = self._layer.contents(path)
        self._notes.hidden(path, hidden)
        return sorted(names)

    def stats(self, path: str, names: Sequence[str]) -> Iterator[FileStat]:
        """Yield the facts about names in a directory, without the names that have gone."""
        found = in_order(paths.canonical(path), names, self._layer.nodes)
        return (self._stat(match, node) for match, node in found)

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        path = paths.canonical(path)
        compiled = Pattern(pattern)
        self._check_directory(path)
        found = self._matching(compiled, path)
        return (self._stat(match, node) for match, node in found)

    def search(
        self, pattern: str, path: str = "", *, glob: str | None = None, limit: int | None = None
    ) -> Iterator[FileMatch]:
        path = paths.canonical(path)
        compiled = Search(pattern)
        wanted = Pattern(glob if glob is not None else "**")
        node = self._node(path)
        if node.kind == "directory":
            found = self._lines(compiled, wanted, path)
        else:
            found = compiled.lines(path, content_of(path, node))
        return islice(found, None if limit is None else max(limit, 0))

    # --- changing ---

    def write(self, path: str, content: str) -> None:
        path = paths.canonical(path)
        there = self._check_file(path)
        encoding = "utf-8" if there is None else text.stored_in(there.content)
        self._place(path, there, InMemory(text.encode(content, path, encoding)))

    def write_bytes(self, path: str, content: bytes) -> None:
        path = paths.canonical(path)
        # A copy, because the caller may change a bytearray later.
        self._place(path, self._check_file(path), InMemory(bytes(content)))

    def mkdir(self, path: str) -> None:
        path = paths.canonical(path)
        node = self._layer.look(path)
        if node is None:
            self._check_writable(path)
            self._make_parents(path)
            self._layer.put(path, directory_node(self._now()))
        elif node.kind != "directory":
            raise FileExistsError(f"{path} cannot be made a directory: {name_of(node)} is there.")

    def link(self, path: str, target: str) -> None:
        path = paths.canonical(path)
        there = self._layer.look(path)
        if there is not None:
            raise FileExistsError(
                f"{path or 'The root'} already exists: {name_of(there)}. Choose another path for "
                "the link."
            )
        try:
            size = len(os.fsencode(target))
        except UnicodeEncodeError:
            size = 0
        if "\0" in target or not 0 < size <= _MAX_TARGET_BYTES:
            raise ValueError(
                f"{path} cannot lead to {escaped(target[:80])!r}: the text of a link has 1 to "
                f"{_MAX_TARGET_BYTES} bytes, and no NUL."
            )
        self._check_writable(path)
        self._make_parents(path)
        self._layer.put(path, link_node(target, self._now()))

    def chmod(self, path: str, mode: int) -> None:
        path = paths.canonical(path)
        node = self._node(path)
        _check_not_root(path, "given another mode")
        if node.kind not in {"file", "directory"}:
            raise PermissionError(f"{path} is {name_of(node)}, and has no mode to be changed here.")
        if mode < 0:
            raise ValueError(f"{mode} is not a mode. Give its bits, such as 0o755.")
        self._check_writable(path)
        mode &= PERMISSIONS
        is_file = node.kind == "file"
        if not is_file and node.mode is not None:
            # Such as the set-group-ID bit, which gives the group to new entries.
            mode |= node.mode & ~PERMISSIONS
        if node.mode == mode:
            return
        version = object() if is_file else node.version
        self._layer.put(path, replace(node, version=version, mode=mode, keeps=not is_file))

    def take(
        self,
        path: str,
        source: str | os.PathLike[str],
        *,
        mode: int,
        modified: int,
        keeper: object = None,
    ) -> None:
        path, content = paths.canonical(path), TakenFile(source, keeper)
        there = self._layer.look(path)
        if there is not None and there.kind == "directory":
            raise IsADirectoryError(
                f"{path or 'The root'} is a directory, so no file can be there."
            )
        self._check_writable(path)
        self._make_parents(path)
        self._layer.put(path, file_node(content, modified, mode & PERMISSIONS))

    def attach(self, content: bytes, suffix: str = "") -> str:
        return self._layer.attached.add(content, suffix)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        path = paths.canonical(path)
        node = self._node(path)
        _check_not_root(path, "deleted")
        self._check_writable(path)
        if node.kind == "directory" and not recursive and any(self._layer.contents(path)):
            raise OSError(
                f"{path} is a directory that is not empty. Delete its entries first, or delete it "
                "recursively."
            )
        self._remove([beneath for beneath, _ in self._subtree(path, node, special=True)])

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self._transfer(source, target, overwrite=overwrite, verb="copied")

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        source = paths.canonical(source)
        self._check_writable(source)
        self._remove(self._transfer(source, target, overwrite=overwrite, verb="moved"))

    @contextmanager
    def exclusive_path(self) -> Generator[str]:
        with self._exclusive() as path:
            try:
                yield path
            finally:
                # Changes by the program are not conflicts of the call that started it.
                self._layer.forget_seen()

    def watch(self) -> Watch:
        mark = self._watch()
        self._layer.watch(mark)
        return mark

    def layers(self) -> WorkspaceLayers:
        return self._layers()

    def notes(self) -> Sequence[str]:
        notice = self._layer.notice()
        return [*([notice] if notice is not None else ()), *self._notes.all()]

    # --- for transactions by hand ---

    def snapshot(self) -> Mapping[str, Node | None]:
        """Return the changed nodes of the call so far."""
        return self._layer.made()

    def restore(self, snapshot: Mapping[str, Node | None]) -> None:
        """Drop the changes of the call since a snapshot. You can repeat it."""
        self._layer.make_only(snapshot)

    def put_back(self, before: Mapping[str, Node | None]) -> Sequence[str]:
        """Restore nodes by path; returns the paths where that is impossible."""
        changed: list[str] = []
        for path, node in sorted(before.items()):
            there = self._layer.look(path)
            if version_of(there) != version_of(node):
                changed.append(path)
            elif there is not None and node is not None and there.mode != node.mode:
                # Only the mode of a directory has changed.
                self._layer.put(path, replace(there, mode=node.mode, keeps=True))
        # A directory is removed after its entries, and made before them.
        for path in reversed(changed):
            if self._layer.look(path) is not None:
                self._layer.remove(path)
        lost: list[str] = []
        for path in changed:
            node = before[path]
            if node is not None and node.kind == "other":
                lost.append(path)
            elif node is not None:
                self._make_parents(path)
                self._layer.put(path, node)
        return lost

    # --- finding ---

    def _node(self, path: str) -> Node:
        """Return the node at a path; raises `OSError` if there is none."""
        node = self._layer.look(path)
        if node is not None:
            return node
        for directory in paths.ancestors(path):
            above = self._layer.look(directory)
            if above is not None and above.kind != "directory":
                raise _no_directory(directory, above)
            if above is not None:
                raise FileNotFoundError(
                    f"There is no {path}; the directory {directory} has no such name. List it to "
                    "see its entries."
                )
        raise FileNotFoundError(f"There is no {path}. List the root to see its entries.")

    def _file(self, path: str) -> Content:
        """Return the content of the file at a path; raises `OSError` for anything else."""
        node = self._node(path)
        if node.kind == "directory":
            raise IsADirectoryError(f"{path or 'The root'} is a directory, not a file. List it.")
        return content_of(path, node)

    def _check_directory(self, path: str) -> None:
        node = self._node(path)
        if node.kind != "directory":
            raise NotADirectoryError(f"{path} is {name_of(node)}, not a directory.")

    def _missing_parents(self, path: str) -> Sequence[str]:
        """Return the missing directories above a path, the deepest first, or raise `OSError`."""
        missing: list[str] = []
        for directory in paths.ancestors(path):
            node = self._layer.look(directory)
            if node is not None:
                if node.kind != "directory":
                    raise _no_directory(directory, node)
                break
            missing.append(directory)
        return missing

    def _matching(self, pattern: Pattern, directory: str) -> Iterator[tuple[str, Node]]:
        """Yield the matching paths with their nodes, by directory and name."""
        for parent, names in pattern.walk(directory, self._names):
            yield from in_order(parent, names, self._nodes)

    def _lines(self, search: Search, wanted: Pattern, directory: str) -> Iterator[FileMatch]:
        """Yield the matching lines of the files whose path matches."""
        for path, node in self._matching(wanted, directory):
            if node.content is None:
                continue
            # Because one file that cannot be read, or is being changed, must not end the search.
            try:
                yield from search.lines(path, node.content)
            except (OSError, ValueError, ConflictError) as error:
                self._notes.unsearched[path] = _reason(error)

    def _names(self, directory: str) -> Mapping[str, Kind]:
        try:
            return self._layer.names(directory)
        except OSError as error:
            self._notes.left_out[directory or "the root"] = _reason(error)
            return {}

    def _nodes(self, directory: str, names: Sequence[str]) -> Mapping[str, Node]:
        try:
            return dict(self._layer.nodes(directory, names))
        except OSError as error:
            self._notes.left_out[directory or "the root"] = _reason(error)
            return {}

    # --- checks and changes ---

    def _stat(self, path: str, node: Node) -> FileStat:
        return node.stat(path, readonly=self._layer.readonly(path) is not None)

    def _check_writable(self, path: str) -> None:
        reason = self._layer.readonly(path)
        if reason is not None:
            raise PermissionError(reason)
        directory = paths.split(path)[0]
        # Once for each directory; the commit checks it again.
        if directory not in self._changeable:
            self._layer.check_changeable(directory)
            self._changeable.add(directory)

    def _check_file(self, path: str) -> Node | None:
        """Return the node at a path; raises `OSError` if no file can be written there."""
        node = self._layer.look(path)
        if node is not None and node.kind == "directory":
            raise IsADirectoryError(
                f"{path or 'The root'} is a directory, so no file can be written there."
            )
        if node is not None and node.content is None:
            raise PermissionError(f"{path} is {name_of(node)}, and cannot be written to here.")
        self._check_writable(path)
        if node is None:
            self._missing_parents(path)
        else:
            _check_mode(path, node)
        return node

    def _make_parents(self, path: str) -> None:
        for directory in reversed(self._missing_parents(path)):
            self._layer.put(directory, directory_node(self._now()))

    def _place(self, path: str, there: Node | None, content: Content) -> None:
        if there is None:
            self._make_parents(path)
        mode = there.mode if there is not None else None
        self._layer.put(path, file_node(content, self._now(), mode))

    def _transfer(self, source: str, target: str, *, overwrite: bool, verb: str) -> Sequence[str]:
        """Put all nodes of a source at a target; return their source paths."""
        source, target = paths.canonical(source), paths.canonical(target)
        node = self._node(source)
        _check_not_root(source, verb)
        if paths.is_within(target, source):
            where = "itself" if target == source else f"{target}, a place within itself"
            raise ValueError(f"{source} cannot be {verb} to {where}. Choose another target.")
        there = self._layer.look(target)
        self._check_writable(target)
        if there is not None:
            if there.kind == "directory":
                raise FileExistsError(
                    f"{target or 'The root'} is a directory that already exists. Give the whole "
                    f"path that {source} is to have, as in {paths.join(target, 'name')}."
                )
            if there.kind != "file" or node.kind != "file":
                raise FileExistsError(f"{target} already exists: {name_of(there)}. Choose another.")
            if not overwrite:
                raise FileExistsError(
                    f"{target} already exists. Choose another target, or retry with overwrite."
                )
            _check_mode(target, there)
        taken = list(self._subtree(source, node, special=False))
        placed = [paths.canonical(f"{target}{path[len(source) :]}") for path, _ in taken]
        self._make_parents(target)
        for (origin, taken_node), path in zip(taken, placed, strict=True):
            new = _moved(taken_node) if verb == "moved" else self._copied(taken_node, origin, path)
            self._layer.put(path, new)
        return [path for path, _ in taken]

    def _copied(self, node: Node, source: str, path: str) -> Node:
        if node.kind == "link":
            return link_node(node.target, self._now())
        if node.content is None:
            mode = node.mode | _OF_OWNER if node.mode is not None else None
            return directory_node(self._now(), mode)
        # Because the content of a mount may change or disappear unnoticed.
        is_mounted = self._layer.readonly(source) is not None
        content = kept(node.content) if is_mounted else node.content
        # A copy over a file keeps that file's mode, as every write does.
        there = self._layer.look(path)
        like = node if there is None else there
        mode = like.mode & PERMISSIONS if like.mode is not None else None
        return file_node(content, self._now(), mode)

    def _subtree(self, path: str, node: Node, *, special: bool) -> Iterator[tuple[str, Node]]:
        """Yield a path and all nodes beneath it, a directory before its entries.

        Without `special`, raise `PermissionError` for a FIFO and the like.
        """
        pending = [(path, node)]
        while pending:
            path, node = pending.pop()
            if node.kind == "other" and not special:
                raise PermissionError(
                    f"{path} is {name_of(node)}, and can be neither copied nor moved here."
                )
            yield path, node
            if node.kind != "directory":
                continue
            names, hidden = self._layer.contents(path)
            if hidden:
                raise PermissionError(
                    f"{path} holds {next(iter(hidden))!a}, which no path here can name, so the "
                    "directory cannot be deleted, copied or moved as a whole."
                )
            for name in names:
                child = paths.join(path, name)
                pending.append((child, self._node(child)))

    def _remove(self, gone: Sequence[str]) -> None:
        """Remove paths, given with each directory before its entries."""
        for directory in {paths.split(path)[0] for path in gone}:
            self._layer.check_changeable(directory)
        for path in reversed(gone):
            self._layer.remove(path)


def _check_mode(path: str, node: Node) -> None:
    if node.readonly:
        raise PermissionError(f"{path} cannot be changed: its mode forbids writing.")


def _check_not_root(path: str, verb: str) -> None:
    if not path:
        raise PermissionError(f"The root of the workspace cannot be {verb}.")


def _moved(node: Node) -> Node:
    if node.kind == "link":
        return link_node(node.target, node.modified)
    if node.content is None:
        return directory_node(node.modified, node.mode)
    return file_node(node.content, node.modified, node.mode)
