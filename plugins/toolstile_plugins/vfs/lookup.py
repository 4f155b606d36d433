"""Lookup of a path: its node, or an error that names the actual one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolstile_hookspecs import ConflictError, FileMatch
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.glob import Pattern
from toolstile_plugins.vfs.nodes import Content, Kind, Node
from toolstile_plugins.vfs.reservations import Notes
from toolstile_plugins.vfs.search import Search
from toolstile_plugins.vfs.write_set import Layer


class Existing:
    """The content of a layer, or an error.

    Args:
        layer: Where to look.
    """

    __slots__ = ("_layer",)

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def node(self, path: str) -> Node:
        """Return what is at a path.

        Raises:
            OSError: When nothing is.
        """
        node = self._layer.look(path)
        if node is None:
            raise self._missing(path)
        return node

    def file(self, path: str) -> Content:
        """Return the content of the file at a path.

        Raises:
            OSError: When there is none, or what is there cannot be opened.
        """
        node = self.node(path)
        if node.kind == "directory":
            raise IsADirectoryError(f"{path or 'The root'} is a directory, not a file. List it.")
        return content_of(path, node)

    def check_directory(self, path: str) -> None:
        """Raise `OSError` unless there is a directory at a path."""
        node = self.node(path)
        if node.kind != "directory":
            raise NotADirectoryError(f"{path} is {what(node)}, not a directory.")

    def missing_parents(self, path: str) -> list[str]:
        """Return the directories that have to be made before a path can be, the deepest first.

        Raises:
            OSError: When something else stands in the place of one.
        """
        missing: list[str] = []
        for directory in paths.ancestors(path):
            node = self._layer.look(directory)
            if node is not None:
                if node.kind != "directory":
                    raise _no_directory(directory, node)
                break
            missing.append(directory)
        return missing

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


def content_of(path: str, node: Node) -> Content:
    """Return the content of what is no directory.

    Raises:
        PermissionError: When it is no file either.
    """
    if node.content is None:
        raise PermissionError(f"{path} is {what(node)}, and cannot be opened here.")
    return node.content


def what(node: Node) -> str:
    """Return what messages call it."""
    if node.kind == "other":
        return node.special or "neither file nor directory"
    return "a file" if node.kind == "file" else "a directory"


def _no_directory(path: str, node: Node) -> OSError:
    if node.kind == "file":
        return NotADirectoryError(
            f"{path} is a file, not a directory, so nothing can lie beneath it."
        )
    return PermissionError(f"{path} is {what(node)}, so nothing can lie beneath it.")


# --- Walks


class Finder:
    """Finds files and directories by their names, and lines in files.

    Args:
        layer: Where to look.
        notes: Keeps what was passed by.
    """

    __slots__ = ("_layer", "_notes")

    def __init__(self, layer: Layer, notes: Notes) -> None:
        self._layer = layer
        self._notes = notes

    def matching(self, pattern: Pattern, directory: str) -> Iterator[tuple[str, Node]]:
        """Yield what matches, by directory and name."""
        for parent, names in pattern.walk(directory, self._names):
            found = self._nodes(parent, names)
            for name in names:
                if name in found:
                    yield paths.join(parent, name), found[name]

    def lines(self, search: Search, wanted: Pattern, directory: str) -> Iterator[FileMatch]:
        """Yield the matching lines of the files whose path matches."""
        for path, node in self.matching(wanted, directory):
            if node.content is None:
                continue
            # One file that cannot be read, or is being changed, is no reason to find nothing.
            try:
                yield from search.lines(path, node.content)
            except (OSError, ValueError, ConflictError) as error:
                self._notes.unsearched(path, error)

    def _names(self, directory: str) -> Mapping[str, Kind]:
        try:
            return self._layer.names(directory)
        except OSError as error:
            self._notes.left_out(directory, error)
            return {}

    def _nodes(self, directory: str, names: Sequence[str]) -> Mapping[str, Node]:
        try:
            return dict(self._layer.nodes(directory, names))
        except OSError as error:
            self._notes.left_out(directory, error)
            return {}
