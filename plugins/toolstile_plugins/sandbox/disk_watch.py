"""The limit of a command's disk, checked while it runs."""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolstile_plugins.sandbox.entries import size_on_disk
from toolstile_plugins.vfs.tools.models import size_of

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout


class DiskWatch:
    """A regular check of the size of a command's files, while the command runs.

    Args:
        layout: The workspace of the command.
        limit: In bytes.
    """

    _RESERVE: Final = 64 * 1024 * 1024
    _BYTES_OF_FILE: Final = 4096

    def __init__(self, layout: Layout, limit: int) -> None:
        self._directory = layout.upper
        self._name = layout.scratch.name
        self._limit = limit
        self._next = 0.0
        self._free = self._found()
        # A copy of the workspace has files before the command writes any.
        self._before = self._used(0)

    def exceeded(self) -> str | None:
        """Return what to say where it has written too much, else None."""
        now = time.monotonic()
        if now < self._next:
            return None
        free = self._found()
        if min(free) <= 0:
            return "The disk is full, so the command was killed and none of its changes were kept."
        # The rest of the machine writes, too; only then it is worth a walk.
        gone = max(before - left for before, left in zip(self._free, free, strict=True))
        if gone < self._limit // 2:
            self._next = now + 0.1
            return None
        used = self._used(gone) - self._before + _size_of_unlinked(self._name)
        self._next = time.monotonic() + 5 * (time.monotonic() - now) + 0.1
        if used <= self._limit:
            return None
        return (
            f"It had written more than {size_of(self._limit)} into the workspace, so it was killed "
            "and none of its changes were kept."
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
                            used += max(size_on_disk(status), self._BYTES_OF_FILE)
                            if entry.is_dir(follow_symlinks=False):
                                pending.append(entry.path)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    return max(used, gone)
        return used


def _size_of_unlinked(name: str) -> int:
    """Return the size of the files that a command has removed and still holds open.

    Args:
        name: The name of its scratch directory, by which its mounts are recognised.
    """
    held: dict[tuple[int, int], int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end, or belong to another user.
        with suppress(OSError):
            mounts = (process / "mountinfo").read_text(encoding="utf-8", errors="replace")
            devices = {line.split()[2] for line in mounts.splitlines() if name in line}
            for descriptor in (process / "fd").iterdir() if devices else ():
                status = descriptor.stat()
                device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
                if device in devices and not status.st_nlink and stat.S_ISREG(status.st_mode):
                    held[status.st_dev, status.st_ino] = size_on_disk(status)
    return sum(held.values())
