"""The file system that a call works on: the same over every backend."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import islice
from typing import BinaryIO, Literal, cast

from toolstile_hookspecs import FileMatch, FileStat
from toolstile_hookspecs.services.layers import WorkspaceLayers
from toolstile_hookspecs.services.watches import Watch
from toolstile_plugins.vfs import paths, text_files as text
from toolstile_plugins.vfs.backends.base import WatchMark
from toolstile_plugins.vfs.glob import Pattern
from toolstile_plugins.vfs.lookup import Search, content_of, in_order
from toolstile_plugins.vfs.nodes import InMemory, Node, TakenFile, WriteStream, copy_stream
from toolstile_plugins.vfs.transfer import Transfer
from toolstile_plugins.vfs.write_set import Layer, put_back


class Overlay:
    """A `Filesystem` on a layer: nothing reaches the base before the layer is committed.

    Costs grow with the files a call changes, never with the tree.
    """

    __slots__ = ("_exclusive", "_layer", "_layers", "_tree", "_watch")

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
        self._tree = Transfer(layer, now)

    # --- reading ---

    def read(self, path: str) -> str:
        """Return a text file's content, with its newlines and the byte order mark of UTF-8.

        Raises:
            ValueError: When it is binary.
        """
        path = paths.canonical(path)
        content, encoding = text.decode(self._tree.file(path).read(), path)
        if encoding != "utf-8":
            title = text.TITLES[encoding]
            self._tree.notes.say(f"{path} is not UTF-8; it is read, and stays, as {title}.")
        return content

    def read_bytes(self, path: str) -> bytes:
        """Return a file's content."""
        return self._tree.file(paths.canonical(path)).read()

    def open(self, path: str, mode: Literal["rb", "wb", "ab"] = "rb") -> BinaryIO:
        """Open a file as a stream; what is written counts when the stream is closed."""
        path = paths.canonical(path)
        if mode == "rb":
            return self._tree.file(path).open()
        if mode not in {"wb", "ab"}:
            raise ValueError(f"A file cannot be opened with mode {mode!r}; use rb, wb or ab.")
        before = self._tree.check_file(path)
        stream = WriteStream(lambda content: self._tree.write(path, content))
        if mode == "ab" and before is not None and before.content is not None:
            with before.content.open() as source:
                copy_stream(source, stream)
        return cast("BinaryIO", stream)

    def exists(self, path: str) -> bool:
        """Tell whether there is anything, also a link wherever it leads."""
        return self._layer.look(paths.canonical(path)) is not None

    def stat(self, path: str) -> FileStat:
        """Return what is known of a path."""
        path = paths.canonical(path)
        return self._stat(path, self._tree.node(path))

    def is_readonly(self, path: str) -> bool:
        """Tell whether the path cannot be changed here."""
        path = paths.canonical(path)
        if self._layer.readonly(path) is not None:
            return True
        node = self._layer.look(path)
        return node is not None and node.readonly

    def list(self, path: str = "") -> Sequence[FileStat]:
        """Return what a directory holds, by name."""
        return list(self.stats(path, self.names(path)))

    def names(self, path: str = "") -> Sequence[str]:
        """Return the names in a directory, sorted; `stats` looks at what they are."""
        path = paths.canonical(path)
        self._tree.check_directory(path)
        names, hidden = self._layer.contents(path)
        self._tree.notes.hidden(path, hidden)
        return sorted(names)

    def stats(self, path: str, names: Sequence[str]) -> Iterator[FileStat]:
        """Yield what is known of names in a directory, without those that have gone."""
        found = in_order(paths.canonical(path), names, self._layer.nodes)
        return (self._stat(match, node) for match, node in found)

    def glob(self, pattern: str, path: str = "") -> Iterator[FileStat]:
        """Yield what matches, by directory and name: `*` stays within a name, `**` crosses.

        Names that begin with a dot match like any other. Links are not followed.
        """
        path = paths.canonical(path)
        compiled = Pattern(pattern)
        self._tree.check_directory(path)
        found = self._tree.matching(compiled, path)
        return (self._stat(match, node) for match, node in found)

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
        node = self._tree.node(path)
        if node.kind == "directory":
            found = self._tree.lines(compiled, wanted, path)
        else:
            found = compiled.lines(path, content_of(path, node))
        return islice(found, None if limit is None else max(limit, 0))

    # --- changing ---

    def write(self, path: str, content: str) -> None:
        """Write a text file, creating it and its directories; newlines stay as they are.

        Raises:
            ValueError: When the encoding of the file that is there has no place for it.
        """
        path = paths.canonical(path)
        there = self._tree.check_file(path)
        encoding = "utf-8" if there is None else text.stored_in(there.content)
        self._tree.place(path, there, InMemory(text.encode(content, path, encoding)))

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write a file, creating it and its directories."""
        # A copy, as the caller may go on changing a bytearray.
        self._tree.write(paths.canonical(path), InMemory(bytes(content)))

    def mkdir(self, path: str) -> None:
        """Make a directory and those above it; one that is there already is fine."""
        self._tree.make_directory(paths.canonical(path))

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link at a path that is free; nothing here follows it."""
        self._tree.make_link(paths.canonical(path), target)

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or directory; set-user-ID and the like are dropped."""
        self._tree.change_mode(paths.canonical(path), mode)

    def take(
        self,
        path: str,
        source: str | os.PathLike[str],
        *,
        mode: int,
        modified: int,
        keeper: object = None,
    ) -> None:
        """Make the file at a path the one that a program has left (`SupportsLayers`).

        The commit renames it, where that is possible, else it copies it; until then it stays.
        """
        content = TakenFile(source, keeper)
        self._tree.take(paths.canonical(path), content, mode, modified)

    def attach(self, content: bytes, suffix: str = "") -> str:
        """Let a content be read at the path returned, which nothing else shows.

        Args:
            content: The content.
            suffix: The end of the path, such as `.txt`.
        """
        return self._layer.attached.add(content, suffix)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, a link, an empty directory, or with `recursive` a whole one."""
        self._tree.delete(paths.canonical(path), recursive=recursive)

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Copy a file or a directory to a path that is free, or a file onto a file."""
        source, target = paths.canonical(source), paths.canonical(target)
        self._tree.copy(source, target, overwrite=overwrite)

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Move a file or a directory to a path that is free, or a file onto a file."""
        source, target = paths.canonical(source), paths.canonical(target)
        self._tree.move(source, target, overwrite=overwrite)

    @contextmanager
    def exclusive_path(self) -> Generator[str]:
        """Give the real directory, alone, for starting programs; not rolled back.

        Raises:
            StateError: When this call has changed files before: those are not there yet.
            ResourceBusyError: In a dry run, and before a person has approved the changes.
        """
        with self._exclusive() as path:
            try:
                yield path
            finally:
                # Changes by the program are not conflicts of the call that started it.
                self._layer.forget_seen()

    def watch(self) -> Watch:
        """Watch all commits, before what a program is to read is laid out somewhere.

        A commit by another call meanwhile is a conflict of this one, whatever was read. May wait
        for others, so an async handler calls it on a thread.

        Raises:
            ResourceBusyError: When another commit or program does not end.
            DeadlineExceededError: When the deadline passes first.
        """
        mark = self._watch()
        self._layer.watch(mark)
        return mark

    def layers(self) -> WorkspaceLayers:
        """Return the parts of the workspace as this call sees it, for a sandbox to lay out."""
        return self._layers()

    def notes(self) -> Sequence[str]:
        """Return notes on the answers so far: what was left out, and why."""
        notice = self._layer.notice()
        return [*([notice] if notice is not None else ()), *self._tree.notes.all()]

    # --- for transactions by hand ---

    def snapshot(self) -> Mapping[str, Node | None]:
        """Return the changes of the call so far."""
        return self._layer.made()

    def restore(self, snapshot: Mapping[str, Node | None]) -> None:
        """Drop the changes of the call since; as often as wanted."""
        self._layer.make_only(snapshot)

    def put_back(self, before: Mapping[str, Node | None]) -> Sequence[str]:
        """Make nodes again, by path; returns the paths where that is impossible."""
        return put_back(self._layer, before, self._tree.make_parents)

    # --- underneath ---

    def _stat(self, path: str, node: Node) -> FileStat:
        return node.stat(path, readonly=self._layer.readonly(path) is not None)
