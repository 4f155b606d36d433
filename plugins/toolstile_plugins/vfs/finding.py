"""What lies beneath a directory: what cannot be read there is passed by, and noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from toolstile_hookspecs import ConflictError, FileMatch
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.globbing import Pattern
from toolstile_plugins.vfs.layer import Layer
from toolstile_plugins.vfs.nodes import Kind, Node
from toolstile_plugins.vfs.notes import Notes
from toolstile_plugins.vfs.searching import Search


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
