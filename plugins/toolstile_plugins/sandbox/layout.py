"""The layout of a call's workspace as a directory: layers to mount, or a copy of all of it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from toolstile_hookspecs import FileStat, Filesystem
from toolstile_hookspecs.services.workspace import SupportsLayers, WorkspaceLayers
from toolstile_plugins.sandbox.scratch import Scratch
from toolstile_plugins.vfs import paths

Steps = Callable[[str], None]

OPAQUE: Final = "user.overlay.opaque"
"""The attribute of a directory in a layer that hides the one beneath it."""

_LOOK: Final = stat.S_IRUSR | stat.S_IXUSR
_USUAL_DIRECTORY: Final = 0o755
_USUAL_FILE: Final = 0o644


@dataclass(frozen=True, slots=True)
class Layout:
    """A workspace that is laid out for one command.

    Args:
        scratch: The directory of the command; what the command wrote lives as long as this.
        lowers: The directories to mount as layers, the lowest first; of a copy the only one.
        upper: The directory that takes what the command changes; of a copy the same one.
        work: An empty directory that an overlay needs for itself.
        mounts: Directories that can be read at paths of the workspace.
        hidden: The paths that are not shown.
        closed: Those of them that could not be read.
    """

    scratch: Scratch
    lowers: tuple[str, ...]
    upper: str
    work: str
    mounts: Mapping[str, str] = field(default_factory=dict[str, str])
    hidden: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


def lay_out_layers(files: Filesystem, scratch: Scratch, hidden: tuple[str, ...]) -> Layout:
    """Return the layers of a workspace; costs what the call has changed, not what there is.

    Args:
        files: The workspace.
        scratch: The directory to put layers into.
        hidden: The paths that are not shown.

    Raises:
        OSError: When it cannot be laid out.
    """
    layers = files.layers() if isinstance(files, SupportsLayers) else WorkspaceLayers()
    changes = _Tree(files, scratch.directory("changes"))
    upper, work = scratch.directory("upper"), scratch.directory("work")
    lowers = [changes.root]
    if layers.directory is not None:
        mode = stat.S_IMODE(os.stat(layers.directory).st_mode)  # noqa: PTH116 - of a text
        for layer in (changes.root, upper):
            os.chmod(layer, mode)  # noqa: PTH101 - likewise
        changes.add_changes(layers.changed)
        lowers.insert(0, layers.directory)
    else:
        changes.add_all("", without={*layers.mounts, *hidden})
    mounts: dict[str, str] = {}
    for number, (path, directory) in enumerate(layers.mounts.items()):
        changes.make_directory(path)
        mounts[path] = directory or _copy(files, path, scratch.directory(f"mount-{number}"))
    for path in (paths.RESERVED, *hidden):
        changes.hide(path)
    return Layout(scratch, tuple(lowers), upper, work, mounts, hidden)


def lay_out_copy(files: Filesystem, scratch: Scratch, hidden: tuple[str, ...]) -> Layout:
    """Return a copy of a whole workspace, for backends that mount nothing."""
    tree = _Tree(files, scratch.directory("upper"))
    tree.add_all("", without=set(hidden))
    tree.give_modes()
    closed = tuple(tree.closed)
    lowers, work = (tree.root,), scratch.directory("work")
    return Layout(scratch, lowers, tree.root, work, hidden=(*hidden, *closed), closed=closed)


def _copy(files: Filesystem, path: str, root: str) -> str:
    _Tree(files, root).add_all(path, without=set(), at=path)
    return root


class _Tree:
    """A directory that parts of a workspace are put into; what is `closed` stays empty in it."""

    def __init__(self, files: Filesystem, root: str) -> None:
        self._files = files
        self.root = root
        self._gone: set[str] = set()
        self._narrow: list[tuple[str, int]] = []
        self.closed: list[str] = []

    def add_changes(self, changed: Mapping[str, bool]) -> None:
        """Put in what differs from the directory beneath, and marks for what is gone."""
        for path in sorted(changed):
            if any(above in self._gone for above in paths.ancestors(path)):
                continue
            if not self._files.exists(path):
                self.hide(path)
                self._gone.add(path)
                continue
            found = self._files.stat(path)
            self._put(path, found)
            if found.kind == "directory" and changed[path]:
                os.setxattr(self._at(path), OPAQUE, b"y")

    def add_all(self, directory: str, *, without: set[str], at: str = "") -> None:
        """Put in all that a directory of the workspace holds, at what is left of its paths."""
        if directory and self._files.stat(directory).kind != "directory":
            return
        try:
            held = self._files.list(directory)
        except PermissionError:
            if not directory:
                raise
            self.closed.append(directory)
            return
        for found in held:
            if found.path in without:
                continue
            self._put(found.path, found, at=at)
            if found.kind == "directory":
                self.add_all(found.path, without=without, at=at)

    def give_modes(self) -> None:
        """Take rights from the directories whose owner lacks them, now that they are filled."""
        for target, mode in reversed(self._narrow):
            os.chmod(target, mode)  # noqa: PTH101 - of a text

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it, which look as they do in the workspace."""
        for directory in (*reversed(list(paths.ancestors(path))), path):
            target = self._at(directory)
            if not os.path.isdir(target):  # noqa: PTH112 - of a text
                os.mkdir(target)  # noqa: PTH102
                _give(target, self._files.stat(directory), _USUAL_DIRECTORY)

    def hide(self, path: str) -> None:
        """Let nothing show at a path, whatever is beneath."""
        above = paths.split(path)[0]
        if above and not (self._files.exists(above) and self._is_directory(above)):
            return
        if above:
            self.make_directory(above)
        target = self._at(path)
        if os.path.isdir(target):  # noqa: PTH112
            shutil.rmtree(target)
        elif os.path.lexists(target):
            os.unlink(target)  # noqa: PTH108
        os.mknod(target, stat.S_IFCHR, 0)

    def _is_directory(self, path: str) -> bool:
        return self._files.stat(path).kind == "directory"

    def _put(self, path: str, found: FileStat, *, at: str = "") -> None:
        if not at and paths.split(path)[0]:
            self.make_directory(paths.split(path)[0])
        target = self._at(path[len(at) :].lstrip("/"))
        if found.kind == "directory":
            os.makedirs(target, exist_ok=True)  # noqa: PTH103
            _give(target, found, _USUAL_DIRECTORY)
            # Others have to be opened to be looked at, which changes their modes.
            if found.mode is not None and found.mode & stat.S_IRWXU == _LOOK:
                self._narrow.append((target, found.mode))
        elif found.kind == "link":
            Path(target).symlink_to(found.target or "")
        elif found.kind == "file":
            with Path(target).open("xb") as copy:
                try:
                    source = self._files.open(path)
                except PermissionError:
                    self.closed.append(path)
                else:
                    with source:
                        shutil.copyfileobj(source, copy, 1 << 20)
            _give(target, found, _USUAL_FILE)

    def _at(self, path: str) -> str:
        return os.path.join(self.root, path) if path else self.root  # noqa: PTH118


def _give(target: str, found: FileStat, usual: int) -> None:
    """Give what was laid out the mode and the time that it has in the workspace."""
    mode = found.mode if found.mode is not None else usual
    # What is put into a directory needs its owner's rights.
    os.chmod(target, mode | stat.S_IRWXU if found.kind == "directory" else mode)  # noqa: PTH101
    if found.modified is not None:
        moment = found.modified.timestamp()
        os.utime(target, (moment, moment))
