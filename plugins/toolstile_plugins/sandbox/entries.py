"""The changes that a command has made to a laid-out workspace, found without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from toolstile_plugins.sandbox.layout import OPAQUE
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.disk.descriptors import READ_DIRECTORY, change_mode

Kind = Literal["file", "directory", "link", "gone", "other"]
Known = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A path that a command may have changed.

    Args:
        path: The path in the workspace.
        kind: What is there now; `gone` for nothing.
        mode: Its permission bits.
        modified: When it last changed, in nanoseconds since 1970.
        target: The text of a link.
        replaces: Whether a directory is a new one, with nothing of a former one in it.
        special: The name of another kind.
        size: In bytes, the greater of a file's length and the blocks that it takes.
    """

    path: str
    kind: Kind
    mode: int = 0
    modified: int = 0
    target: str = ""
    replaces: bool = False
    special: str = ""
    size: int = 0


def entries_of(upper: str) -> Iterator[Entry]:
    """Yield what the upper directory of an overlay holds, a directory before what is in it."""
    return (entry for entry, _ in _walk(upper))


def known_of(tree: str) -> Known:
    """Return what tells states of all paths of a directory apart."""
    return {entry.path: _mark(status) for entry, status in _walk(tree)}


def entries_since(tree: str, before: Known) -> Iterator[Entry]:
    """Yield what has changed in a directory since a look at it, what is gone first."""
    now = {entry.path: (entry, _mark(status)) for entry, status in _walk(tree)}
    gone: set[str] = set()
    for path in sorted(before):
        if path not in now and gone.isdisjoint(paths.ancestors(path)):
            gone.add(path)
            yield Entry(path, "gone")
    for path, (entry, mark) in now.items():
        if before.get(path) != mark:
            # A mark of overlays says nothing in a copy; what is gone was told above.
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
        handle = _open(directory, name)
        try:
            mode, modified = stat.S_IMODE(status.st_mode), status.st_mtime_ns
            yield Entry(child, "directory", mode, modified, replaces=_is_opaque(handle)), status
            # Deeper ones can be no paths here, and the entry above says so.
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


def _open(directory: int, name: str) -> int:
    try:
        return os.open(name, READ_DIRECTORY, dir_fd=directory)
    except PermissionError:
        # A command may take its owner's rights to a directory.
        change_mode(directory, name, stat.S_IRWXU)
        return os.open(name, READ_DIRECTORY, dir_fd=directory)


def _is_opaque(directory: int) -> bool:
    with suppress(OSError):
        return os.getxattr(directory, OPAQUE) == b"y"
    return False
