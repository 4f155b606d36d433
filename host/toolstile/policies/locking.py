"""A lock beside a file, held by one thread of one process at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _acquire(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)

    def _release(handle: int) -> None:
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquire(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _release(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Hold the lock of a file; it lies beside it, since the file itself is replaced.

    Makes the file's directory where there is none. Whoever holds the lock must be quick.

    Raises:
        OSError: When the lock cannot be had.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _acquire(handle)
        try:
            yield
        finally:
            _release(handle)
    finally:
        os.close(handle)
