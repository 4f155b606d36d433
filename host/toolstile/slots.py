"""Slots, by which the processes of one machine wait until each has heard of a change.

A slot is a file that its process maps, and locks while it lives. The first number counts the
changes; the others are marks. A thread sets a mark, reads the count, acts, and clears the mark.
`announce` raises all counts, then waits for older marks.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections import deque
from contextlib import closing, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from toolstile_hookspecs.support.process import make_directory, new_id, unshared

if sys.platform != "win32":
    import fcntl

MARKS: Final = 4096  # more than there are threads that act at once
_SETTLE: Final = 0.005
"""Seconds in which every processor has written out a mark that it set before."""


class Slot:
    """A slot of this process, in memory until it is shared; `free` are the places of free marks."""

    def __init__(self) -> None:
        self.numbers = memoryview(bytearray(8 * MARKS)).cast("Q")
        self.free = deque(range(1, MARKS))
        self._path = Path(f"{os.getpid()}")
        self._locked: FileIO | None = None

    def share(self, folder: Path) -> None:
        """Make the slot a file in a folder; raises `OSError` if it cannot be made."""
        make_directory(folder)
        with suppress(FileExistsError), (folder / ".gitignore").open("x") as ignore:
            ignore.write("*\n")
        path = folder / f"{os.getpid()}-{new_id()}"
        self._locked = file = unshared(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            # Because a write to a mapped page that finds no room on the disk kills the process.
            with open(file.fileno(), "wb", closefd=False) as whole:
                whole.write(bytes(8 * MARKS))
        except OSError:
            path.unlink()
            raise
        self.numbers = _mapped(file)
        # Locked before it has its name: an unlocked slot is one of a process that has ended.
        fcntl.flock(file, fcntl.LOCK_EX)
        self._path = path.rename(path.with_suffix(".slot"))

    def close(self) -> None:
        """Remove the file; the numbers can still be used."""
        if self._locked is not None:
            self._path.unlink(missing_ok=True)
            self._locked.close()

    def announce(self, folder: Path | None, patience: float) -> list[str]:
        """Raise the counts of this and of all slots in a folder; return who has older marks yet."""
        slots = {self._path: self.numbers}
        for path in () if folder is None else folder.glob("*.slot"):
            if not _is_free(path):
                with suppress(FileNotFoundError), closing(unshared(path, os.O_RDWR)) as file:
                    slots[path] = _mapped(file)
        for numbers in slots.values():
            numbers[0] += 1
        time.sleep(_SETTLE)
        until, late = time.monotonic() + patience, list[str]()
        for path, numbers in slots.items():
            while any(0 < mark <= numbers[0] for mark in numbers[1:].tolist()):
                is_late = time.monotonic() > until
                if is_late or (path != self._path and _is_free(path)):
                    late += [path.name.partition("-")[0]] * is_late
                    break
                time.sleep(0.001)
        return late


def _mapped(file: FileIO) -> memoryview:
    return memoryview(mmap.mmap(file.fileno(), 8 * MARKS)).cast("Q")


def _is_free(path: Path) -> bool:
    """Tell whether the process of a slot has ended; remove the slot then."""
    with suppress(FileNotFoundError, BlockingIOError), closing(unshared(path, os.O_RDWR)) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    return not path.exists()
