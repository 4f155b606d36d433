"""What the system's errors mean for a workspace."""

from __future__ import annotations

import errno
import os

from toolstile_plugins.vfs.permissions import REMEDY

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
