"""Files that programs have left outside of a workspace, as contents of its own."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import BinaryIO, Final

from toolstile_hookspecs import ConflictError
from toolstile_plugins.vfs.nodes import Content

_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class TakenFile(Content):
    """The content of a file outside of the workspace, which stays there until a commit takes it.

    Args:
        source: The file. Nobody else changes it from now on.
        keeper: Lives as long as the file may be needed, such as what removes its directory.

    Raises:
        OSError: When there is no regular file.
    """

    __slots__ = ("_identity", "_keeper", "size", "source")

    def __init__(self, source: str | os.PathLike[str], keeper: object = None) -> None:
        self.source = os.fspath(source)
        self._keeper = keeper
        status = os.lstat(self.source)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{self.source} is not a file, so its content cannot be taken.")
        self._identity = _identity_of(status)
        self.size = status.st_size

    def open(self) -> BinaryIO:
        """Return a stream; raises `ConflictError` when it is not the file that was taken."""
        return os.fdopen(self.descriptor(), "rb")

    def descriptor(self) -> int:
        """Return a descriptor to read with; raises as `open` does."""
        with suppress(FileNotFoundError, NotADirectoryError):
            handle = os.open(self.source, _READ)
            try:
                self.check(os.fstat(handle))
            except BaseException:
                os.close(handle)
                raise
            return handle
        raise self._changed()

    def check(self, status: os.stat_result, *, renamed: bool = False) -> None:
        """Raise `ConflictError` unless this is the file as it was taken, by its old name or not."""
        # A new name counts as a change of what is not its content.
        end = -1 if renamed else None
        if _identity_of(status)[:end] != self._identity[:end]:
            raise self._changed()

    def _changed(self) -> ConflictError:
        name = os.path.basename(self.source)  # noqa: PTH119 - of a text
        return ConflictError(
            f"{name!a} changed after the program that made it had ended; nothing of this call was "
            "kept. Retry."
        )


def _identity_of(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
