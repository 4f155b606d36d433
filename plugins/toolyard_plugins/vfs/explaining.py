"""What the system's errors mean for a workspace."""

from __future__ import annotations

import errno
import os

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


def explained(error: OSError, path: str, root: str) -> OSError:
    """Return an error of the same type whose text says what it means, or the error itself.

    Args:
        error: What the system said.
        path: What was looked at; empty for a commit.
        root: The workspace's directory.
    """
    number = error.errno
    if number is None or isinstance(error, FileNotFoundError | NotADirectoryError):
        return error
    if number in _FORBIDDEN:
        what = path or "the workspace"
        return PermissionError(f"Access to {what} is forbidden by the modes of the files there.")
    if number == errno.EROFS:
        return PermissionError("The workspace is read-only, so it cannot be changed.")
    if number in _FULL:
        return OSError(
            "The disk that the workspace is on is full, so nothing of this call was kept. Free "
            "space, then retry."
        )
    if number in _TOO_MANY:
        return OSError("Too many files are open, so the workspace cannot be used now. Retry.")
    return OSError(f"The workspace {root} cannot be used: {os.strerror(number)}.")


def unopened(error: OSError, root: str) -> OSError:
    """Return the error that says why a directory cannot be a workspace."""
    reason = os.strerror(error.errno) if error.errno is not None else str(error)
    return type(error)(
        f"{root} cannot be a workspace: {reason}. Give a directory that exists and can be read."
    )
