"""What the modes of a directory allow, asked before anything is tried."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from toolstile_plugins.vfs import descriptors, paths

REMEDY: Final = "Choose another path, or let a person change the mode."


def check_changeable(root: int, directory: str) -> None:
    """Check that what a directory holds can be changed, and by renaming from the root.

    Args:
        root: Descriptor of the workspace.
        directory: Its path; of one that is not there, the nearest one above counts.

    Raises:
        OSError: When it cannot be.
    """
    for path in (directory, *paths.ancestors(directory), ""):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with descriptors.parent_of(root, path) as (parent, name):
                found = os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
                allowed = os.access(name or ".", os.W_OK | os.X_OK, dir_fd=parent)
            if stat.S_ISDIR(found.st_mode):
                _check(path, on_root=found.st_dev == os.fstat(root).st_dev, allowed=allowed)
                return


def check_readable(root: int, path: str) -> None:
    """Check that a file can be read.

    Raises:
        PermissionError: When its mode forbids it.
    """
    with (
        contextlib.suppress(FileNotFoundError, NotADirectoryError),
        descriptors.parent_of(root, path) as (parent, name),
    ):
        if not os.access(name, os.R_OK, dir_fd=parent):
            raise unreadable(path)


def unreadable(path: str) -> PermissionError:
    """Return the error that says that a file may not be read."""
    return PermissionError(f"{path} cannot be read: its mode forbids it. {REMEDY}")


def _check(path: str, *, on_root: bool, allowed: bool) -> None:
    if not on_root:
        raise OSError(
            f"{path} lies on another file system than the rest of the workspace, so nothing in "
            "there can be changed here. Choose another path."
        )
    if not allowed:
        raise PermissionError(
            f"{path or 'The root'} is a directory whose mode forbids to change what it holds. "
            f"{REMEDY}"
        )
