"""The limit of a command's disk, checked while it runs."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import Final

from toolstile_plugins.vfs.tools.models import size_of


class DiskWatch:
    """A look, now and then, at what a command has written.

    Args:
        directory: What it writes into.
        limit: In bytes.
    """

    _RESERVE: Final = 64 * 1024 * 1024
    _BYTES_OF_FILE: Final = 4096

    def __init__(self, directory: str, limit: int) -> None:
        self._directory = directory
        self._limit = limit
        self._next = 0.0
        self._free = self._found()

    def exceeded(self) -> str | None:
        """Return what to say where it has written too much, else None."""
        now = time.monotonic()
        if now < self._next:
            return None
        free = self._found()
        if min(free) <= 0:
            return "The disk for what commands write is full, so the command was ended."
        # The rest of the machine writes, too; only then it is worth a walk.
        gone = max(before - left for before, left in zip(self._free, free, strict=True))
        if gone < self._limit // 2:
            self._next = now + 0.1
            return None
        used = self._used(gone)
        self._next = time.monotonic() + 5 * (time.monotonic() - now) + 0.1
        if used <= self._limit:
            return None
        return (
            f"It had written more than {size_of(self._limit)} into the workspace, so it was ended."
        )

    def _found(self) -> tuple[int, int]:
        """Return the free space, and the free files counted as bytes."""
        found = os.statvfs(self._directory)
        free = found.f_bavail * found.f_frsize - self._RESERVE
        files = found.f_favail * self._BYTES_OF_FILE if found.f_files else free
        return free, files

    def _used(self, gone: int) -> int:
        """Return what has been written; where paths are too long for a look, what has gone."""
        used = 0
        pending = [self._directory]
        while pending:
            try:
                with os.scandir(pending.pop()) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError, PermissionError):
                            status = entry.stat(follow_symlinks=False)
                            used += max(status.st_blocks * 512, self._BYTES_OF_FILE)
                            if entry.is_dir(follow_symlinks=False):
                                pending.append(entry.path)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    return max(used, gone)
        return used
