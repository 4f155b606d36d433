"""Changes of a layer: files, directories and whole trees put into it, moved and removed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.lookup import Lookup, what
from toolstile_plugins.vfs.nodes import (
    PERMISSIONS,
    Content,
    Node,
    directory_node,
    escaped,
    file_node,
    link_node,
)
from toolstile_plugins.vfs.write_set import Layer, kept

#: What a copied directory needs for what it holds to be put into it.
_OF_OWNER: Final = 0o700
_MAX_TARGET_BYTES: Final = 4095


class Transfer(Lookup):
    """The paths of a layer as places for files and directories."""

    __slots__ = ("_changeable", "_now")

    def __init__(self, layer: Layer, now: Callable[[], datetime]) -> None:
        super().__init__(layer)
        self._now = now
        self._changeable: set[str] = set()

    def check_writable(self, path: str) -> None:
        """Raise when nothing can be changed at a path, whatever is there."""
        reason = self._layer.readonly(path)
        if reason is not None:
            raise PermissionError(reason)
        directory = paths.split(path)[0]
        # Once for what it holds; the commit checks it again.
        if directory not in self._changeable:
            self._layer.check_changeable(directory)
            self._changeable.add(directory)

    def check_file(self, path: str) -> Node | None:
        """Return what is at a path; raises `OSError` when no file can be written there."""
        node = self._layer.look(path)
        if node is not None and node.kind == "directory":
            raise IsADirectoryError(
                f"{path or 'The root'} is a directory, so no file can be written there."
            )
        if node is not None and node.content is None:
            raise PermissionError(f"{path} is {what(node)}, and cannot be written to here.")
        self.check_writable(path)
        if node is None:
            self.missing_parents(path)
        else:
            _check_mode(path, node)
        return node

    def check_free(self, source: str, node: Node, target: str, *, overwrite: bool) -> None:
        """Raise `OSError` unless the node of one path can be put at another one, too."""
        there = self._layer.look(target)
        self.check_writable(target)
        if there is None:
            return
        if there.kind == "directory":
            raise FileExistsError(
                f"{target or 'The root'} is a directory that is there already. Give the whole "
                f"path that {source} is to have, as in {paths.join(target, 'name')}."
            )
        if there.kind != "file" or node.kind != "file":
            raise FileExistsError(f"{target} is there already: {what(there)}. Choose another.")
        if not overwrite:
            raise FileExistsError(
                f"{target} is there already. Choose another target, or retry with overwrite."
            )
        _check_mode(target, there)

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; an existing one is fine."""
        node = self._layer.look(path)
        if node is None:
            self.check_writable(path)
            self.make_parents(path)
            self._layer.put(path, directory_node(self._now()))
        elif node.kind != "directory":
            raise FileExistsError(f"{path} cannot be made a directory: {what(node)} is there.")

    def make_link(self, path: str, target: str) -> None:
        """Make a symbolic link at a path that is free, and the directories above it."""
        there = self._layer.look(path)
        if there is not None:
            raise FileExistsError(
                f"{path or 'The root'} is there already: {what(there)}. Choose another path for "
                "the link."
            )
        _check_target(path, target)
        self.check_writable(path)
        self.make_parents(path)
        self._layer.put(path, link_node(target, self._now()))

    def change_mode(self, path: str, mode: int) -> None:
        """Set the permission bits of a file or directory."""
        node = self.node(path)
        _check_not_root(path, "given another mode")
        if node.kind not in {"file", "directory"}:
            raise PermissionError(f"{path} is {what(node)}, and has no mode to be changed here.")
        if mode < 0:
            raise ValueError(f"{mode} is not a mode. Give its bits, such as 0o755.")
        self.check_writable(path)
        mode &= PERMISSIONS
        is_file = node.kind == "file"
        if not is_file and node.mode is not None:
            # Such as what hands its group on to what is put into it.
            mode |= node.mode & ~PERMISSIONS
        if node.mode == mode:
            return
        version = object() if is_file else node.version
        self._layer.put(path, replace(node, version=version, mode=mode, keeps=not is_file))

    def take(self, path: str, content: Content, mode: int, modified: int) -> None:
        """Put a file that a program has made at a path, whatever but a directory is there."""
        there = self._layer.look(path)
        if there is not None and there.kind == "directory":
            raise IsADirectoryError(
                f"{path or 'The root'} is a directory, so no file can be there."
            )
        self.check_writable(path)
        self.make_parents(path)
        self._layer.put(path, file_node(content, modified, mode & PERMISSIONS))

    def make_parents(self, path: str) -> None:
        """Make the directories above a path, where they are missing."""
        for directory in reversed(self.missing_parents(path)):
            self._layer.put(directory, directory_node(self._now()))

    def write(self, path: str, content: Content) -> None:
        """Put a file at a path, if one can be there."""
        self.place(path, self.check_file(path), content)

    def place(self, path: str, there: Node | None, content: Content) -> None:
        """Put a file where `check_file` has found that one can be."""
        if there is None:
            self.make_parents(path)
        mode = there.mode if there is not None else None
        self._layer.put(path, file_node(content, self._now(), mode))

    # --- trees ---

    def delete(self, path: str, *, recursive: bool) -> None:
        """Delete a file, an empty directory, or with `recursive` a whole one."""
        node = self.node(path)
        _check_not_root(path, "deleted")
        self.check_writable(path)
        if (
            node.kind == "directory"
            and not recursive
            and (self._layer.names(path) or self._layer.hidden(path))
        ):
            raise OSError(
                f"{path} is a directory that is not empty. Delete what it holds first, or "
                "delete it recursively."
            )
        self._remove([beneath for beneath, _ in self._subtree(path, node, special=True)])

    def copy(self, source: str, target: str, *, overwrite: bool) -> None:
        """Copy a file or a directory to a path that is free, or a file onto a file."""
        self._transfer(source, target, overwrite=overwrite, verb="copied")

    def move(self, source: str, target: str, *, overwrite: bool) -> None:
        """Move a file or a directory to a path that is free, or a file onto a file."""
        self.check_writable(source)
        self._remove(self._transfer(source, target, overwrite=overwrite, verb="moved"))

    def _transfer(self, source: str, target: str, *, overwrite: bool, verb: str) -> list[str]:
        """Put what is at one path at another one too; return the paths of what that is."""
        node = self.node(source)
        _check_not_root(source, verb)
        if paths.is_within(target, source):
            where = "itself" if target == source else f"{target}, a place within itself"
            raise ValueError(f"{source} cannot be {verb} to {where}. Choose another target.")
        self.check_free(source, node, target, overwrite=overwrite)
        taken = list(self._subtree(source, node, special=False))
        placed = [paths.canonical(f"{target}{path[len(source) :]}") for path, _ in taken]
        self.make_parents(target)
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
        # A mount's may change or go without anybody's noticing.
        is_mounted = self._layer.readonly(source) is not None
        content = kept(node.content) if is_mounted else node.content
        # Over another file it takes that one's mode, as everything that is written does.
        there = self._layer.look(path)
        like = node if there is None else there
        mode = like.mode & PERMISSIONS if like.mode is not None else None
        return file_node(content, self._now(), mode)

    def _subtree(self, path: str, node: Node, *, special: bool) -> Iterator[tuple[str, Node]]:
        """Yield a path and everything beneath it, a directory before what it holds.

        Without `special`, raise `PermissionError` for a FIFO and the like.
        """
        pending = [(path, node)]
        while pending:
            path, node = pending.pop()
            if node.kind == "other" and not special:
                raise PermissionError(
                    f"{path} is {what(node)}, and can be neither copied nor moved here."
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
                pending.append((child, self.node(child)))

    def _remove(self, gone: Sequence[str]) -> None:
        """Remove what is at these paths, given a directory before what it holds."""
        for directory in {paths.split(path)[0] for path in gone}:
            self._layer.check_changeable(directory)
        for path in reversed(gone):
            self._layer.remove(path)


def _check_mode(path: str, node: Node) -> None:
    if node.readonly:
        raise PermissionError(f"{path} cannot be changed: its mode lets nobody write it.")


def _check_not_root(path: str, verb: str) -> None:
    if not path:
        raise PermissionError(f"The root of the workspace cannot be {verb}.")


def _check_target(path: str, target: str) -> None:
    try:
        size = len(os.fsencode(target))
    except UnicodeEncodeError:
        size = 0
    if "\0" in target or not 0 < size <= _MAX_TARGET_BYTES:
        raise ValueError(
            f"{path} cannot lead to {escaped(target[:80])!r}: the text of a link has 1 to "
            f"{_MAX_TARGET_BYTES} bytes, and no NUL."
        )


def _moved(node: Node) -> Node:
    if node.kind == "link":
        return link_node(node.target, node.modified)
    if node.content is None:
        return directory_node(node.modified, node.mode)
    return file_node(node.content, node.modified, node.mode)
