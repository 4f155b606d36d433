"""Walking a directory by descriptors, so that no link leads anywhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_ONLY_DIRECTORIES: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS: Final = _ONLY_DIRECTORIES | getattr(os, "O_PATH", os.O_RDONLY)
READ_DIRECTORY: Final = _ONLY_DIRECTORIES | os.O_RDONLY
"""The flags for opening a directory without following a link."""
READ_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""The flags for opening a file, also a FIFO without waiting for its other end."""
CREATE_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags for creating a file where neither a file nor a link exists."""


@contextmanager
def parent_of(root: int, path: str) -> Generator[tuple[int, str]]:
    """Give a descriptor of the directory that a path lies in, and the path's last name.

    The descriptor serves to reach what is in the directory, not to list it.

    Raises:
        FileNotFoundError: When a directory on the way does not exist.
        NotADirectoryError: When something on the way is none, or is a link.
    """
    directory, _, name = path.rpartition("/")
    if not directory:
        yield root, name
        return
    descriptor = _walk(root, directory)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


@contextmanager
def listable(root: int, path: str) -> Generator[int]:
    """Give a descriptor of a directory with which it can be listed and synced; raises alike."""
    with parent_of(root, path) as (parent, name):
        descriptor = os.open(name or ".", READ_DIRECTORY, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def look(root: int, path: str) -> os.stat_result | None:
    """Return what is at a path, a link being a link; None when nothing is."""
    try:
        with parent_of(root, path) as (parent, name):
            return os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def look_in(directory: int, name: str) -> os.stat_result | None:
    """Return what is at a name in a directory, a link being a link; None when nothing is."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(root: int, path: str) -> int:
    """Return a descriptor to read a regular file with.

    Raises:
        FileNotFoundError: When there is none, or it is something else.
    """
    with parent_of(root, path) as (parent, name):
        # Looked at before, as opening a device can do something.
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise FileNotFoundError(path)
        descriptor = os.open(name, READ_FILE, dir_fd=parent)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(path)
    return descriptor


def _walk(root: int, directory: str) -> int:
    current = root
    for name in directory.split("/"):
        try:
            following = os.open(name, _PASS, dir_fd=current)
        finally:
            if current != root:
                os.close(current)
        current = following
    return current
