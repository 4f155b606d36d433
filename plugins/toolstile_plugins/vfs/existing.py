"""What is at a path, or an error that says what is there instead."""

from __future__ import annotations

from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.layer import Layer
from toolstile_plugins.vfs.nodes import Content, Node


class Existing:
    """What a layer holds, for those who cannot go on without it.

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
