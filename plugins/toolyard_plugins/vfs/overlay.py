"""The file system that a call works on: the same over every backend."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import islice
from typing import BinaryIO, Final, Literal, cast

from toolyard_hookspecs import FileMatch, FileStat
from toolyard_plugins.vfs import paths, text
from toolyard_plugins.vfs.checkpoints import put_back
from toolyard_plugins.vfs.finding import Finder
from toolyard_plugins.vfs.globbing import Pattern
from toolyard_plugins.vfs.keeping import kept
from toolyard_plugins.vfs.layer import Layer
from toolyard_plugins.vfs.nodes import Content, InMemory, Node, directory_node, file_node
from toolyard_plugins.vfs.notes import Notes
from toolyard_plugins.vfs.searching import Search
from toolyard_plugins.vfs.streams import WriteStream

_COPY_BYTES: Final = 1 << 20
#: What a copy takes over of a mode: nothing that lets it run as somebody else.
_PERMISSIONS: Final = 0o777
#: What a copied directory needs for what it holds to be put into it.
_OF_OWNER: Final = 0o700


class Overlay:
    """A `Filesystem` on a layer: nothing reaches the base before the layer is committed.

    Costs grow with the files a call changes, never with the tree.

    Args:
        layer: Keeps what is seen and made.
        now: Gives the time for what is written.
        exclusive: Gives the real directory.
    """

    __slots__ = ("_exclusive", "_finder", "_layer", "_notes", "_now")

    def __init__(
        self,
        layer: Layer,
        now: Callable[[], datetime],
        exclusive: Callable[[], AbstractContextManager[str]],
    ) -> None:
        self._layer = layer
        self._now = now
        self._exclusive = exclusive
        self._notes = Notes()
        self._finder = Finder(layer, self._notes)

    # --- reading ---

    def read(self, path: str) -> str:
        """Return a text file's content, with its newlines and the byte order mark of UTF-8.

        Raises:
            ValueError: When it is binary.
        """
        path = paths.canonical(path)
        content, encoding = text.decode(self._file(path).read(), path)
        if encoding != "utf-8":
            title = text.TITLES[encoding]
            self._notes.say(f"{path} is not UTF-8; it is read, and stays, as {title}.")
        return content

    def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        return self._file(paths.canonical(path)).read()

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        """Open a file as a stream; what is written counts when the stream is closed."""
        path = paths.canonical(path)
        if mode == "rb":
            return self._file(path).open()
        if mode not in {"wb", "ab"}:
            raise ValueError(f"A file cannot be opened with mode {mode!r}; use rb, wb or ab.")
        before = self._check_target(path)
        stream = WriteStream(lambda content: self._write(path, content))
        if mode == "ab" and before is not None and before.content is not None:
            with before.content.open() as source:
                while block := source.read(_COPY_BYTES):
                    stream.write(block)
        return cast("BinaryIO", stream)

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or directory."""
        return self._layer.look(paths.canonical(path)) is not None

    def stat(self, path: str) -> FileStat:
        """Return what is known of a path."""
        path = paths.canonical(path)
        return self._stat(path, self._find(path))

    def is_readonly(self, path: str) -> bool:
        """Tell whether the path cannot be changed here."""
        path = paths.canonical(path)
        if self._layer.readonly(path) is not None:
            return True
        node = self._layer.look(path)
        return node is not None and node.readonly

    def list(self, path: str = "") -> Sequence[FileStat]:
        """Return what a directory holds, by name."""
        path = paths.canonical(path)
        self._directory(path)
        found = self._layer.nodes(path, self._layer.names(path))
        self._notes.hidden(path, self._layer.hidden(path))
        stats = [self._stat(paths.join(path, name), node) for name, node in found]
        return sorted(stats, key=lambda stat: stat.path)

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        """Yield what matches, by directory and name: `*` stays within a name, `**` crosses.

        Names that begin with a dot match like any other. Links are not followed.
        """
        path = paths.canonical(path)
        compiled = Pattern(pattern)
        self._directory(path)
        found = self._finder.matching(compiled, path)
        return (self._stat(each, node) for each, node in found)

    def search(
        self, pattern: str, path: str = "", *, glob: str | None = None, limit: int | None = None
    ) -> Iterator[FileMatch]:
        """Yield the lines of text files that a regular expression (RE2) matches.

        Args:
            pattern: The expression.
            path: The file or directory to search.
            glob: Only files whose path beneath `path` matches.
            limit: How many lines at most.

        In a directory, what cannot be read is passed by; `notes` tells of it.
        """
        path = paths.canonical(path)
        compiled = Search(pattern)
        wanted = Pattern(glob if glob is not None else "**")
        node = self._find(path)
        if node.kind == "directory":
            found = self._finder.lines(compiled, wanted, path)
        else:
            found = compiled.lines(path, _content(path, node))
        return islice(found, None if limit is None else max(limit, 0))

    # --- changing ---

    def write(self, path: str, content: str) -> None:
        """Write a text file, creating it and its directories; newlines stay as they are.

        Raises:
            ValueError: When the encoding of the file that is there has no place for it.
        """
        path = paths.canonical(path)
        there = self._check_target(path)
        encoding = "utf-8" if there is None else text.stored_in(there.content)
        self._place(path, there, InMemory(text.encode(content, path, encoding)))

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file, creating it and its directories."""
        # A copy, as the caller may go on changing a bytearray.
        self._write(paths.canonical(path), InMemory(bytes(content)))

    def mkdir(self, path: str) -> None:
        """Make a directory and those above it; one that is there already is fine."""
        path = paths.canonical(path)
        node = self._layer.look(path)
        if node is None:
            self._check_writable(path)
            self._make_parents(path)
            self._layer.put(path, directory_node(self._now()))
        elif node.kind != "directory":
            raise FileExistsError(f"{path} cannot be made a directory: {_what(node)} is there.")

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, an empty directory, or with `recursive` a whole one."""
        path = paths.canonical(path)
        node = self._find(path)
        _check_not_root(path, "deleted")
        self._check_writable(path)
        if node.kind == "directory" and not recursive and self._is_filled(path):
            raise OSError(
                f"{path} is a directory that is not empty. Delete what it holds first, or "
                "delete it recursively."
            )
        self._remove([each for each, _ in self._subtree(path, node, links=True)])

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Copy a file or a directory to a path that is free, or a file onto a file."""
        source, target = paths.canonical(source), paths.canonical(target)
        self._transfer(source, target, overwrite=overwrite, verb="copied")

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or a directory to a path that is free, or a file onto a file."""
        source, target = paths.canonical(source), paths.canonical(target)
        self._check_writable(source)
        self._remove(self._transfer(source, target, overwrite=overwrite, verb="moved"))

    def exclusive_path(self) -> AbstractContextManager[str]:
        """Give the real directory, alone, for starting programs; not rolled back.

        Raises:
            StateError: When this call has changed files before: those are not there yet.
            ResourceBusyError: In a dry run, and before a person has approved the changes.
        """
        return self._exclusively()

    def notes(self) -> Sequence[str]:
        """Return what has to be known of what was given: what was left out, and why."""
        notice = self._layer.notice()
        return [*([notice] if notice is not None else ()), *self._notes.all()]

    # --- for transactions by hand ---

    def snapshot(self) -> Mapping[str, Node | None]:
        """Return what the call has made so far."""
        return self._layer.made()

    def restore(self, snapshot: Mapping[str, Node | None]) -> None:
        """Drop what the call has made since; as often as wanted."""
        self._layer.make_only(snapshot)

    def put_back(self, before: Mapping[str, Node | None]) -> Sequence[str]:
        """Make what was there, by path; returns the paths of what cannot be made again.

        Raises:
            OSError: When somebody else has put a file where a directory was.
        """
        return put_back(self._layer, before, self._make_parents)

    # --- underneath ---

    @contextmanager
    def _exclusively(self) -> Generator[str]:
        with self._exclusive() as path:
            try:
                yield path
            finally:
                # Whatever the program changed is no conflict of the call that started it.
                self._layer.forget_seen()

    def _find(self, path: str) -> Node:
        node = self._layer.look(path)
        if node is None:
            raise self._missing(path)
        return node

    def _missing(self, path: str) -> OSError:
        for directory in paths.ancestors(path):
            node = self._layer.look(directory)
            if node is None:
                continue
            if node.kind != "directory":
                return _no_directory(directory, node)
            return FileNotFoundError(
                f"There is no {path}; the directory {directory} holds no such name. List it to "
                "see what there is."
            )
        return FileNotFoundError(f"There is no {path}. List the root to see what there is.")

    def _file(self, path: str) -> Content:
        node = self._find(path)
        if node.kind == "directory":
            raise IsADirectoryError(f"{path or 'The root'} is a directory, not a file. List it.")
        return _content(path, node)

    def _directory(self, path: str) -> None:
        node = self._find(path)
        if node.kind != "directory":
            raise NotADirectoryError(f"{path} is {_what(node)}, not a directory.")

    def _stat(self, path: str, node: Node) -> FileStat:
        return node.stat(path, readonly=self._layer.readonly(path) is not None)

    def _is_filled(self, path: str) -> bool:
        return bool(self._layer.names(path) or self._layer.hidden(path))

    def _check_writable(self, path: str) -> None:
        reason = self._layer.readonly(path)
        if reason is not None:
            raise PermissionError(reason)
        self._layer.check_changeable(paths.split(path)[0])

    def _check_target(self, path: str) -> Node | None:
        """Check that a file can be written at a path; return what is there."""
        node = self._layer.look(path)
        if node is not None and node.kind == "directory":
            raise IsADirectoryError(
                f"{path or 'The root'} is a directory, so no file can be written there."
            )
        if node is not None and node.content is None:
            raise PermissionError(f"{path} is {_what(node)}, and cannot be written to here.")
        self._check_writable(path)
        if node is None:
            self._missing_parents(path)
        else:
            _check_mode(path, node)
        return node

    def _write(self, path: str, content: Content) -> None:
        self._place(path, self._check_target(path), content)

    def _place(self, path: str, there: Node | None, content: Content) -> None:
        if there is None:
            self._make_parents(path)
        mode = there.mode if there is not None else None
        self._layer.put(path, file_node(content, self._now(), mode))

    def _remove(self, gone: Sequence[str]) -> None:
        """Remove what is at these paths, given a directory before what it holds."""
        for directory in {paths.split(each)[0] for each in gone}:
            self._layer.check_changeable(directory)
        for each in reversed(gone):
            self._layer.remove(each)

    def _missing_parents(self, path: str) -> builtins.list[str]:
        missing: builtins.list[str] = []
        for directory in paths.ancestors(path):
            node = self._layer.look(directory)
            if node is not None:
                if node.kind != "directory":
                    raise _no_directory(directory, node)
                break
            missing.append(directory)
        return missing

    def _make_parents(self, path: str) -> None:
        for directory in reversed(self._missing_parents(path)):
            self._layer.put(directory, directory_node(self._now()))

    def _subtree(self, path: str, node: Node, *, links: bool) -> Iterator[tuple[str, Node]]:
        """Yield a path and everything beneath it, a directory before what it holds.

        Args:
            path: Where to begin.
            node: What is there.
            links: Whether what is neither file nor directory may be among it.
        """
        pending = [(path, node)]
        while pending:
            path, node = pending.pop()
            if node.kind == "other" and not links:
                raise PermissionError(
                    f"{path} is {_what(node)}, and can be neither copied nor moved here."
                )
            yield path, node
            if node.kind != "directory":
                continue
            hidden = self._layer.hidden(path)
            if hidden:
                raise PermissionError(
                    f"{path} holds {next(iter(hidden))!a}, which no path here can name, so the "
                    "directory cannot be deleted, copied or moved as a whole."
                )
            for name in self._layer.names(path):
                child = paths.join(path, name)
                pending.append((child, self._find(child)))

    def _transfer(
        self, source: str, target: str, *, overwrite: bool, verb: str
    ) -> builtins.list[str]:
        """Put what is at one path at another one too; return the paths of what that is."""
        node = self._find(source)
        _check_not_root(source, verb)
        if paths.is_within(target, source):
            where = "itself" if target == source else f"{target}, a place within itself"
            raise ValueError(f"{source} cannot be {verb} to {where}. Choose another target.")
        self._check_free(source, node, target, overwrite=overwrite)
        taken = builtins.list(self._subtree(source, node, links=False))
        placed = [paths.canonical(f"{target}{path[len(source) :]}") for path, _ in taken]
        self._make_parents(target)
        for (origin, each), path in zip(taken, placed, strict=True):
            new = self._moved(each) if verb == "moved" else self._copied(each, origin, path)
            self._layer.put(path, new)
        return [path for path, _ in taken]

    def _moved(self, node: Node) -> Node:
        if node.content is None:
            return directory_node(node.modified, node.mode)
        return file_node(node.content, node.modified, node.mode)

    def _copied(self, node: Node, source: str, path: str) -> Node:
        if node.content is None:
            mode = node.mode | _OF_OWNER if node.mode is not None else None
            return directory_node(self._now(), mode)
        self._layer.check_readable(source)
        # A mount's may change or go without anybody's noticing.
        is_mounted = self._layer.readonly(source) is not None
        content = kept(node.content) if is_mounted else node.content
        # Over another file it takes that one's mode, as everything that is written does.
        there = self._layer.look(path)
        like = node if there is None else there
        mode = like.mode & _PERMISSIONS if like.mode is not None else None
        return file_node(content, self._now(), mode)

    def _check_free(self, source: str, node: Node, target: str, *, overwrite: bool) -> None:
        there = self._layer.look(target)
        self._check_writable(target)
        if there is None:
            return
        if there.kind == "directory":
            raise FileExistsError(
                f"{target or 'The root'} is a directory that is there already. Give the whole "
                f"path that {source} is to have, as in {paths.join(target, 'name')}."
            )
        if there.kind == "other" or node.kind == "directory":
            raise FileExistsError(f"{target} is there already: {_what(there)}. Choose another.")
        if not overwrite:
            raise FileExistsError(
                f"{target} is there already. Choose another target, or retry with overwrite."
            )
        _check_mode(target, there)


def _content(path: str, node: Node) -> Content:
    if node.content is None:
        raise PermissionError(f"{path} is {_what(node)}, and cannot be opened here.")
    return node.content


def _check_not_root(path: str, verb: str) -> None:
    if not path:
        raise PermissionError(f"The root of the workspace cannot be {verb}.")


def _check_mode(path: str, node: Node) -> None:
    if node.readonly:
        raise PermissionError(f"{path} cannot be changed: its mode lets nobody write it.")


def _no_directory(path: str, node: Node) -> OSError:
    message = f"{path} is {_what(node)}, not a directory, so nothing can lie beneath it."
    return NotADirectoryError(message) if node.kind == "file" else PermissionError(message)


def _what(node: Node) -> str:
    if node.kind == "other":
        return node.special or "neither file nor directory"
    return "a file" if node.kind == "file" else "a directory"
