"""The file of a record: opened by one process at a time, continued, written line by line."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
from pathlib import Path
from threading import Lock
from typing import Final

from toolstile_hookspecs import NOTICE, Durability
from toolstile_hookspecs.support.process import deferred_interrupts, sync_names, unshared
from toolstile_plugins.record.hash_chain import BEGINNING, START, read_link, seal
from toolstile_plugins.record.schema import RecordError

log = logging.getLogger("toolstile.record")

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND
_MODE: Final = 0o600
"""The mode of the file: results of calls are private to the user."""
_BLOCK: Final = 64 * 1024


class RecordFile:
    """A record that is being written. Each line is in the file when `append` returns.

    The file is locked while it is open, because two writers would tear the chain.

    Args:
        path: The file; continued if it exists.
        durability: With `power` each line is also on disk when `append` returns.

    Attributes:
        torn: The bytes of an incomplete last line that were cut off.

    Raises:
        RecordError: The file cannot be opened, is being written, or is not an intact record.

    Example:
        >>> file = RecordFile(Path("calls.jsonl"))  # doctest: +SKIP
    """

    def __init__(self, path: Path, *, durability: Durability = "power") -> None:
        self._path = path
        self._durability = durability
        self._lock, self._syncing = Lock(), Lock()
        self._n, self._last, self.torn = 0, START, 0
        self._process = os.getpid()
        while not self._open():
            self._file.close()
        self._synced = self._end()
        # For each fsync that failed, the number of the last line that stayed.
        self._cuts: list[int] = []

    def append(self, content: str) -> None:
        """Write a line: a JSON object with at least one field.

        Raises:
            OSError: It cannot be written; it is taken back.
            RecordError: This process is a fork of the process with the open file.
        """
        if os.getpid() != self._process:
            raise RecordError(
                f"{self._path} is written by process {self._process}, the parent of this fork: two "
                "writers would tear it. Open a host with its own record in each process."
            )
        with self._lock:
            line, own = seal(self._n + 1, self._last, content)
            try:
                self._write(line)
            except (KeyboardInterrupt, SystemExit):
                # The interrupt came before the line was written, or after: only the file knows.
                with deferred_interrupts():
                    self._continue()
                raise
            self._n, self._last = self._n + 1, own
            n, cuts = self._n, len(self._cuts)
        if self._durability == "power":
            self._sync(n, cuts)

    def _end(self) -> tuple[int, str, int]:
        return self._n, self._last, os.fstat(self._handle).st_size

    def _sync(self, n: int, cuts: int) -> None:
        """Have a line on disk: the first thread that waits syncs the lines of all that wait."""
        with self._syncing:
            is_cut = cuts < len(self._cuts)
            if n <= (self._cuts[cuts] if is_cut else self._synced[0]):
                return
            if is_cut:
                raise OSError(errno.EIO, "another thread could not write the lines to the disk")
            with self._lock:
                end = self._end()
            try:
                os.fsync(self._handle)
            except OSError:
                # Cut them, because a second fsync would succeed though the system dropped them.
                with self._lock:
                    self._n, self._last, size = self._synced
                    self._cuts.append(self._n)
                    os.ftruncate(self._handle, size)
                raise
            self._synced = end

    def close(self) -> None:
        """Close the file, so that another process may continue it; remove it if it is empty."""
        if os.getpid() == self._process:
            if not self._is_there():
                log.warning(
                    "%s was removed or replaced while it was written. Its lines are in the file "
                    "that was moved, if it was not deleted.",
                    self._path,
                    extra=NOTICE,
                )
            elif not os.fstat(self._handle).st_size:
                self._path.unlink(missing_ok=True)
        self._file.close()

    def _open(self) -> bool:
        """Open the file; return whether it still exists: its last writer may remove it."""
        try:
            self._file = unshared(self._path, _FLAGS, _MODE)
            self._handle = self._file.fileno()
        except OSError as error:
            raise self._unopened(error) from error
        try:
            self._claim()
            there = self._is_there()
            if there:
                self._continue()
                if self._durability == "power" and not self._n:
                    sync_names(self._path.absolute().parent)
        except BaseException as error:
            self._file.close()
            if isinstance(error, OSError):
                raise self._unopened(error) from error
            raise
        return there

    def _claim(self) -> None:
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise RecordError(
                f"{self._path} cannot hold a record: it is not a file whose lines can be read "
                "again. Name a file."
            )
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RecordError(
                f"{self._path} is being written by another recorder, or as a trace. Record to "
                "another file, or wait until the other has ended."
            ) from error

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except OSError:
            return False

    def _unopened(self, error: OSError) -> RecordError:
        folder = self._path.absolute().parent
        remedy = "Name a file that can be written."
        if not folder.exists():
            remedy = f"Make the folder {folder}, or name a file in an existing folder."
        return RecordError(f"{self._path} cannot be opened to record: {error.strerror}. {remedy}")

    def _write(self, line: bytes) -> None:
        written = 0
        try:
            while written < len(line):
                written += os.write(self._handle, line[written:])
        except OSError:
            # The next line must not follow half of this one.
            os.ftruncate(self._handle, os.fstat(self._handle).st_size - written)
            raise

    def _continue(self) -> None:
        size = os.fstat(self._handle).st_size
        end = self._last_newline(size) + 1
        if end:
            self._n, self._last = self._read_last(end)
        if end < size and not self._completes(end, size):
            # Cut off an incomplete line.
            following = b'{"n":%d,"prev":"%b"' % (self._n + 1, self._last.encode())
            # After a loss of power the system may show NULs for bytes that it has not written.
            begin = os.pread(self._handle, len(following), end).rstrip(b"\0")
            if not following.startswith(begin) or not (end or begin):
                raise RecordError(
                    f"Cannot append to {self._path}: its last line is not part of a record. Record "
                    "to another file."
                )
            self.torn = size - end
            os.ftruncate(self._handle, end)
            log.warning(
                "%s ended in the middle of a line: %s bytes were cut off.",
                self._path,
                f"{self.torn:,}",
                extra=NOTICE,
            )

    def _read_last(self, end: int) -> tuple[int, str]:
        start = self._last_newline(end - 1) + 1
        line = os.pread(self._handle, end - 1 - start, start)
        link = read_link(line)
        if link is None:
            is_ours = line.startswith(BEGINNING)
            fault = "was changed after it was written" if is_ours else "is not part of a record"
            raise RecordError(
                f"Cannot append to {self._path}: its last line {fault}. Check it with `toolstile "
                "record verify`, and record to another file."
            )
        return link.n, link.hash

    def _completes(self, end: int, size: int) -> bool:
        """Return whether the last line lacks only its newline, and write that."""
        link = read_link(os.pread(self._handle, size - end, end))
        if link is None or (link.n, link.prev) != (self._n + 1, self._last):
            return False
        self._write(b"\n")
        self._n, self._last = link.n, link.hash
        return True

    def _last_newline(self, before: int) -> int:
        while before > 0:
            start = max(0, before - _BLOCK)
            found = os.pread(self._handle, before - start, start).rfind(b"\n")
            if found >= 0:
                return start + found
            before = start
        return -1
