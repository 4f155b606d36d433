"""Where something can be put, and putting it there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.existing import Existing, what
from toolstile_plugins.vfs.layer import Layer
from toolstile_plugins.vfs.nodes import Content, Node, directory_node, file_node


class Targets:
    """The paths of a layer as places for files and directories.

    Args:
        layer: Takes what is put there.
        existing: What is there.
        now: Gives the time for what is written.
    """

    __slots__ = ("_existing", "_layer", "_now")

    def __init__(self, layer: Layer, existing: Existing, now: Callable[[], datetime]) -> None:
        self._layer = layer
        self._existing = existing
        self._now = now

    def check_writable(self, path: str) -> None:
        """Raise when nothing can be changed at a path, whatever is there."""
        reason = self._layer.readonly(path)
        if reason is not None:
            raise PermissionError(reason)
        self._layer.check_changeable(paths.split(path)[0])

    def check_file(self, path: str) -> Node | None:
        """Check that a file can be written at a path; return what is there.

        Raises:
            OSError: When none can be.
        """
        node = self._layer.look(path)
        if node is not None and node.kind == "directory":
            raise IsADirectoryError(
                f"{path or 'The root'} is a directory, so no file can be written there."
            )
        if node is not None and node.content is None:
            raise PermissionError(f"{path} is {what(node)}, and cannot be written to here.")
        self.check_writable(path)
        if node is None:
            self._existing.missing_parents(path)
        else:
            _check_mode(path, node)
        return node

    def check_free(self, source: str, node: Node, target: str, *, overwrite: bool) -> None:
        """Check that what is at one path can be put at another one, too.

        Args:
            source: Where it is.
            node: What it is.
            target: Where it is to be.
            overwrite: Whether a file may take the place of a file.

        Raises:
            OSError: When it cannot be.
        """
        there = self._layer.look(target)
        self.check_writable(target)
        if there is None:
            return
        if there.kind == "directory":
            raise FileExistsError(
                f"{target or 'The root'} is a directory that is there already. Give the whole "
                f"path that {source} is to have, as in {paths.join(target, 'name')}."
            )
        if there.kind == "other" or node.kind == "directory":
            raise FileExistsError(f"{target} is there already: {what(there)}. Choose another.")
        if not overwrite:
            raise FileExistsError(
                f"{target} is there already. Choose another target, or retry with overwrite."
            )
        _check_mode(target, there)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; one that is there already is fine.

        Raises:
            OSError: When it cannot be made.
        """
        node = self._layer.look(path)
        if node is None:
            self.check_writable(path)
            self.make_parents(path)
            self._layer.put(path, directory_node(self._now()))
        elif node.kind != "directory":
            raise FileExistsError(f"{path} cannot be made a directory: {what(node)} is there.")

    def make_parents(self, path: str) -> None:
        """Make the directories above a path, where they are missing."""
        for directory in reversed(self._existing.missing_parents(path)):
            self._layer.put(directory, directory_node(self._now()))

    def write(self, path: str, content: Content) -> None:
        """Put a file at a path, if one can be there."""
        self.place(path, self.check_file(path), content)

    def place(self, path: str, there: Node | None, content: Content) -> None:
        """Put a file where `check_file` has found that one can be.

        Args:
            path: The path.
            there: What `check_file` has found there.
            content: The file's.
        """
        if there is None:
            self.make_parents(path)
        mode = there.mode if there is not None else None
        self._layer.put(path, file_node(content, self._now(), mode))


def _check_mode(path: str, node: Node) -> None:
    if node.readonly:
        raise PermissionError(f"{path} cannot be changed: its mode lets nobody write it.")
