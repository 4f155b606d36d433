"""Errors of the operating system in plain words, and permissions checked beforehand."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Container
from typing import Final

from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.disk import descriptors

REMEDY: Final = "Choose another path, or let a person change the mode."


def check_changeable(root: int, directory: str, opened: Container[str] = ()) -> None:
    """Raise `OSError` unless entries of a directory can be changed by renaming from the root.

    Args:
        root: The descriptor of the root.
        directory: The directory, or one that is to be made.
        opened: The directories whose modes will have been changed so that they let it be.
    """
    for path in (directory, *paths.ancestors(directory), ""):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with descriptors.parent_of(root, path) as (parent, name):
                found = os.stat(name or ".", dir_fd=parent, follow_symlinks=False)
                allowed = path in opened or os.access(name or ".", os.W_OK | os.X_OK, dir_fd=parent)
            if stat.S_ISDIR(found.st_mode):
                _check(path, on_root=found.st_dev == os.fstat(root).st_dev, allowed=allowed)
                return


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


# --- Errors of the system


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


def explained(error: OSError, path: str, root: str) -> OSError:
    """Return an error of the same type whose text says what it means, or the error itself."""
    number = error.errno
    if number is None or isinstance(error, FileNotFoundError | NotADirectoryError):
        return error
    if number in _FORBIDDEN:
        what = path or named(error) or "The workspace"
        return PermissionError(
            f"{what} cannot be reached: its mode, or that of a directory above, forbids it. "
            f"{REMEDY}"
        )
    if number == errno.EROFS:
        return PermissionError("The workspace is read-only, so it cannot be changed.")
    if number in _FULL:
        return OSError(
            "The disk that the workspace is on is full, so nothing of this call was kept. Free "
            "space, then retry."
        )
    if number in _TOO_MANY:
        return OSError("Too many files are open, so the workspace cannot be used now. Retry.")
    where = f" at {path or named(error)}" if path or named(error) else ""
    return OSError(
        f"The workspace {root} cannot be used{where}: {os.strerror(number).lower()}. Retry later; "
        "if that does not help, it requires human intervention."
    )


def named(error: OSError) -> str:
    """Return the path that an error names, empty for none."""
    return os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""


def unopened(error: OSError, root: str) -> OSError:
    """Return the error that says why a directory cannot be a workspace."""
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    return type(error)(
        f"{root} cannot be a workspace: {reason}. Give a directory that exists and can be read."
    )
