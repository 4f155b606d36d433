"""The workspace of a command: laid out as a directory, and the changes found in it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from toolstile_hookspecs import FileStat, Filesystem
from toolstile_hookspecs.services.workspace import SupportsLayers, WorkspaceLayers
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.sandbox.scratch import Scratch
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.disk.descriptors import READ_DIRECTORY, change_mode
from toolstile_plugins.vfs.tools.checks import reason_of

# --- The layout


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
        scratch: The directory of the command; the files in it live as long as this object.
        lowers: The directories to mount as layers, the lowest first; for a copy, only the copy.
        upper: The directory for the changes of the command; for a copy, the copy.
        work: An empty directory that an overlay needs.
        mounts: Directories to mount read-only at paths of the workspace.
        hidden: The paths that are not shown.
        closed: The hidden paths that this user cannot read.
    """

    scratch: Scratch
    lowers: tuple[str, ...]
    upper: str
    work: str
    mounts: Mapping[str, str] = field(default_factory=dict[str, str])
    hidden: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


def lay_out_layers(files: Filesystem, scratch: Scratch, hidden: tuple[str, ...]) -> Layout:
    """Return a workspace's layers, or raise `OSError`; costs as much as the call has changed."""
    layers = files.layers() if isinstance(files, SupportsLayers) else WorkspaceLayers()
    changes = _Tree(files, scratch.directory("changes"))
    upper, work = scratch.directory("upper"), scratch.directory("work")
    lowers = [changes.root]
    if layers.directory is not None:
        mode = stat.S_IMODE(os.stat(layers.directory).st_mode)  # noqa: PTH116 - of a text
        for layer in (changes.root, upper):
            os.chmod(layer, mode)  # noqa: PTH101 - of a text
        changes.add_changes(layers.changed)
        lowers.insert(0, layers.directory)
    else:
        changes.add_all("", without={*layers.mounts, *hidden})
    mounts: dict[str, str] = {}
    for number, (path, directory) in enumerate(layers.mounts.items()):
        changes.make_directory(path)
        if directory is None:
            directory = scratch.directory(f"mount-{number}")  # noqa: PLW2901 - a copy of it
            _Tree(files, directory).add_all(path, without=set(), at=path)
        mounts[path] = directory
    for path in (paths.RESERVED, *hidden):
        changes.hide(path)
    return Layout(scratch, tuple(lowers), upper, work, mounts, hidden)


def lay_out_copy(files: Filesystem, scratch: Scratch, hidden: tuple[str, ...]) -> Layout:
    """Return a copy of a whole workspace, for backends without mounts."""
    tree = _Tree(files, scratch.directory("upper"))
    tree.add_all("", without=set(hidden))
    tree.give_modes()
    closed = tuple(tree.closed)
    lowers, work = (tree.root,), scratch.directory("work")
    return Layout(scratch, lowers, tree.root, work, hidden=(*hidden, *closed), closed=closed)


class _Tree:
    """A directory with copied parts of a workspace; the paths of `closed` stay empty in it."""

    def __init__(self, files: Filesystem, root: str) -> None:
        self._files = files
        self.root = root
        self._gone: set[str] = set()
        self._narrow: list[tuple[str, int]] = []
        self.closed: list[str] = []

    def add_changes(self, changed: Mapping[str, bool]) -> None:
        """Copy the paths that differ from the directory beneath, and mark the removed paths."""
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
        """Copy all entries of a directory of the workspace, at their paths beneath `at`."""
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
        """Set the modes of directories without rights for their owner, after they are filled."""
        for target, mode in reversed(self._narrow):
            os.chmod(target, mode)  # noqa: PTH101 - of a text

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents, with the modes and times of the workspace."""
        for directory in (*reversed(list(paths.ancestors(path))), path):
            target = self._at(directory)
            if not os.path.isdir(target):  # noqa: PTH112 - of a text
                os.mkdir(target)  # noqa: PTH102
                _give(target, self._files.stat(directory), _USUAL_DIRECTORY)

    def hide(self, path: str) -> None:
        """Hide a path of the layers beneath."""
        above = paths.split(path)[0]
        if above:
            if not self._files.exists(above) or self._files.stat(above).kind != "directory":
                return
            self.make_directory(above)
        target = self._at(path)
        if os.path.isdir(target):  # noqa: PTH112
            shutil.rmtree(target)
        elif os.path.lexists(target):
            os.unlink(target)  # noqa: PTH108
        os.mknod(target, stat.S_IFCHR, 0)

    def _put(self, path: str, found: FileStat, *, at: str = "") -> None:
        if not at and paths.split(path)[0]:
            self.make_directory(paths.split(path)[0])
        target = self._at(path[len(at) :].lstrip("/"))
        if found.kind == "directory":
            os.makedirs(target, exist_ok=True)  # noqa: PTH103
            _give(target, found, _USUAL_DIRECTORY)
            # The harvest opens all other directories, which changes their modes.
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
    mode = found.mode if found.mode is not None else usual
    # A directory keeps its owner's rights, because entries are put into it later.
    os.chmod(target, mode | stat.S_IRWXU if found.kind == "directory" else mode)  # noqa: PTH101
    if found.modified is not None:
        moment = found.modified.timestamp()
        os.utime(target, (moment, moment))


# --- The harvest


Kind = Literal["file", "directory", "link", "gone", "other"]
Known = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A path that a command may have changed."""

    path: str
    kind: Kind  # now; `gone` if it was removed
    mode: int = 0  # the permission bits
    modified: int = 0  # in nanoseconds since 1970
    target: str = ""  # the text of a link
    replaces: bool = False  # whether a directory is new and has no entries of an earlier one
    special: str = ""  # the name of another kind
    size: int = 0  # in bytes, the greater of a file's length and the blocks that it takes


def entries_of(upper: str) -> Iterator[Entry]:
    """Yield the entries of an overlay's upper directory, a directory before its entries."""
    return (entry for entry, _ in _walk(upper))


def known_of(tree: str) -> Known:
    """Return marks of all paths in a directory, which change with the paths."""
    return {entry.path: _mark(status) for entry, status in _walk(tree)}


def entries_since(tree: str, before: Known) -> Iterator[Entry]:
    """Yield the changed paths in a directory since `known_of`, removed paths first."""
    now = {entry.path: (entry, _mark(status)) for entry, status in _walk(tree)}
    gone: set[str] = set()
    for path in sorted(before):
        if path not in now and gone.isdisjoint(paths.ancestors(path)):
            gone.add(path)
            yield Entry(path, "gone")
    for path, (entry, mark) in now.items():
        if before.get(path) != mark:
            # Without the mark of overlays, which has no meaning in a copy.
            yield replace(entry, replaces=False)


def _mark(status: os.stat_result) -> tuple[int, ...]:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_mode, status.st_ino, status.st_size, *times)


def _walk(root: str) -> Iterator[tuple[Entry, os.stat_result]]:
    handle = os.open(root, READ_DIRECTORY)
    try:
        yield from _walk_in(handle, "")
    finally:
        os.close(handle)


def _walk_in(directory: int, path: str) -> Iterator[tuple[Entry, os.stat_result]]:
    for name in sorted(os.listdir(directory)):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        child = paths.join(path, name)
        if not stat.S_ISDIR(status.st_mode):
            yield _entry(directory, name, child, status), status
            continue
        try:
            handle = os.open(name, READ_DIRECTORY, dir_fd=directory)
        except PermissionError:
            # A command may remove its owner's rights to a directory.
            change_mode(directory, name, stat.S_IRWXU)
            handle = os.open(name, READ_DIRECTORY, dir_fd=directory)
        try:
            mode, modified = stat.S_IMODE(status.st_mode), status.st_mtime_ns
            yield Entry(child, "directory", mode, modified, replaces=_is_opaque(handle)), status
            # Deeper paths are impossible here, and the entry above fails already.
            if paths.depth(child) <= paths.MAX_DEPTH:
                yield from _walk_in(handle, child)
        finally:
            os.close(handle)


def _entry(directory: int, name: str, path: str, status: os.stat_result) -> Entry:
    mode, modified = stat.S_IMODE(status.st_mode), status.st_mtime_ns
    if stat.S_ISREG(status.st_mode):
        return Entry(path, "file", mode, modified, size=size_on_disk(status))
    if stat.S_ISLNK(status.st_mode):
        return Entry(path, "link", mode, modified, os.readlink(name, dir_fd=directory))
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return Entry(path, "gone")
    special = "a FIFO" if stat.S_ISFIFO(status.st_mode) else "a device"
    return Entry(path, "other", special="a socket" if stat.S_ISSOCK(status.st_mode) else special)


def size_on_disk(status: os.stat_result) -> int:
    """Return the greater of a file's length and the blocks that it takes, in bytes.

    A sparse file is long and takes few blocks; its length counts because a copy fills the gaps.
    """
    return max(status.st_size, status.st_blocks * 512)


def _is_opaque(directory: int) -> bool:
    with suppress(OSError):
        return os.getxattr(directory, OPAQUE) == b"y"
    return False


SHOWN: Final = 50
_NAMED: Final = 5
_PERMISSIONS: Final = 0o777
_USUAL: Final = {"file": 0o644, "directory": 0o755}


class HarvestError(Exception):
    """Some changes of a command cannot be kept; the text names them."""


class Harvest:
    """Makes the changes of a command changes of the call."""

    def __init__(self, files: Filesystem, layout: Layout) -> None:
        self._files = files
        self._layout = layout
        self._refused: dict[str, str] = {}
        # The first changed paths, each after `A`, `M` or `D`, and the number of all.
        self.changed: list[str] = []
        self.count = 0
        # The kinds of FIFOs and the like, which are not kept, by path.
        self.left_out: dict[str, str] = {}
        # The paths that this user, and so the command, cannot read.
        self.closed = layout.closed

    def take(self, entries: Iterable[Entry]) -> None:
        """Make entries the call's changes; `HarvestError` and `ConflictError` fail the call."""
        for entry in entries:
            try:
                self._take(entry)
            except (OSError, ValueError) as error:
                self._refused[ascii(entry.path)] = reason_of(error)
        if self._refused:
            named = list(self._refused.items())[:_NAMED]
            more = len(self._refused) - len(named)
            told = "\n".join(f"- {path}: {reason}" for path, reason in named)
            raise HarvestError(
                f"{counted(len(self._refused), 'change')} of the command cannot be kept, so "
                f"nothing of it was:\n{told}"
                + (f"\n- and {more} more" if more else "")
                + "\nLeave these paths as they are, or choose other names; then retry."
            )

    def _take(self, entry: Entry) -> None:
        path = entry.path
        if entry.kind == "other":
            self.left_out[path] = entry.special
            is_there = False
            with suppress(OSError, ValueError):
                is_there = self._files.exists(path)
            if not is_there:
                return
            # It took the place of another node.
            entry = replace(entry, kind="gone")
        self._check(entry)
        there = self._files.stat(path) if self._files.exists(path) else None
        if entry.kind == "directory":
            if there is not None and (entry.replaces or there.kind != "directory"):
                self._remove(path)
                there = None
            self._keep_directory(entry, None if there is None else there.mode, new=there is None)
            return
        if there is not None and (entry.kind != "file" or there.kind == "directory"):
            self._remove(path)
        elif entry.kind == "gone":
            return
        self._note("D" if entry.kind == "gone" else "M" if there is not None else "A", path)
        if entry.kind == "link":
            self._files.link(path, entry.target)
        elif entry.kind == "file":
            self._keep_file(entry)

    def _remove(self, path: str) -> None:
        try:
            self._files.delete(path, recursive=True)
        except PermissionError as error:
            remedy = "Let one command change only modes, and the next remove the paths."
            raise PermissionError(f"{error} {remedy}") from error

    def _keep_file(self, entry: Entry) -> None:
        source = f"{self._layout.upper}/{entry.path}"
        if not entry.mode & stat.S_IRUSR:
            # The call keeps the mode, but must be able to read the file now.
            os.chmod(source, entry.mode | stat.S_IRUSR)  # noqa: PTH101 - of a text
        if isinstance(self._files, SupportsLayers):
            self._files.take(
                entry.path,
                source,
                mode=entry.mode & _PERMISSIONS,
                modified=entry.modified,
                keeper=self._layout.scratch,
            )
            return
        with open(source, "rb") as left:  # noqa: PTH123 - of a text
            self._files.write_bytes(entry.path, left.read())
        self._files.chmod(entry.path, entry.mode & _PERMISSIONS)

    def _keep_directory(self, entry: Entry, before: int | None, *, new: bool) -> None:
        mode = entry.mode & _PERMISSIONS
        if new:
            self._files.mkdir(entry.path)
            self._note("A", f"{entry.path}/")
        # The workspace keeps the mode of a replaced directory unless a mode is set.
        former = _USUAL["directory"] if before is None else before & _PERMISSIONS
        if entry.replaces or mode != former:
            self._files.chmod(entry.path, mode)
            if not new:
                self._note("M", f"{entry.path}/")

    def _check(self, entry: Entry) -> None:
        """Raise an error if a path is impossible, hidden, or above a hidden path."""
        path = paths.canonical(entry.path)
        if path != entry.path:
            raise ValueError("it cannot be a path of the workspace")
        for hidden in self._layout.hidden:
            if paths.is_within(path, hidden):
                if entry.kind != "gone":
                    raise PermissionError("it is hidden from commands, so it stays unchanged")
            elif (entry.kind == "gone" or entry.replaces) and paths.is_within(hidden, path):
                raise PermissionError(
                    f"it holds {hidden}, which is hidden from commands, so it stays unchanged"
                )

    def _note(self, letter: str, path: str) -> None:
        self.count += 1
        if len(self.changed) < SHOWN:
            self.changed.append(f"{letter} {path}")
