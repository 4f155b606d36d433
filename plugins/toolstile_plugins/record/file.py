"""The file of a record: a chain of lines, each with the hash of the line before and its own.

One process at a time opens and continues it, and writes line by line.

A line is a JSON object on one line. `n` counts from 1, and `prev` is the hash of the line before.
`hash`, at its end, is the SHA-256 of all text before it. So a line that is changed, removed, moved
or inserted shows in the next line.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

from toolstile_hookspecs import NOTICE, Durability
from toolstile_hookspecs.support.process import deferred_interrupts, sync_names, unshared
from toolstile_plugins.record.schema import RecordError, RecordInUseError

START: Final = "0" * 64
"""The hash before the first line."""
BEGINNING: Final = b'{"n":'
"""The first characters of every line."""

_LINE: Final = re.compile(
    rb'(?P<sealed>\{"n":(?P<n>[1-9][0-9]{0,17}),"prev":"(?P<prev>[0-9a-f]{64})",.*)'
    rb',"hash":"(?P<hash>[0-9a-f]{64})"\}',
    re.DOTALL,
)


class Link(NamedTuple):
    """Where a line stands in the chain."""

    n: int
    prev: str
    hash: str


class Damage(StrEnum):
    """The damage of a line."""

    TORN = "torn"
    """It ends in the middle: the process or the machine stopped while it was written."""
    CHANGED = "changed"
    """The line differs from the written line."""
    MISSING = "missing"
    """Lines that stood before it are gone."""
    MISPLACED = "misplaced"
    """It was put in, repeated or moved."""
    REPLACED = "replaced"
    """The line was written after another line than the one before it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a file: the line at which it shows (from 1), its kind, and a text for people."""

    line: int
    damage: Damage
    text: str


def seal(n: int, prev: str, content: str) -> tuple[bytes, str]:
    """Return a line with its newline, and its hash; the content is a JSON object with a field."""
    sealed = f'{{"n":{n},"prev":"{prev}",{content[1:-1]}'.encode()
    own = sha256(sealed).hexdigest()
    return b'%b,"hash":"%b"}\n' % (sealed, own.encode()), own


def read_link(line: bytes) -> Link | None:
    """Return the place of a line (without its newline) in the chain, None if it was changed."""
    found = _LINE.fullmatch(line)
    if found is None or sha256(found["sealed"]).hexdigest() != found["hash"].decode():
        return None
    return Link(int(found["n"]), found["prev"].decode(), found["hash"].decode())


class Chain:
    """Follows a chain from line to line, and notes its faults and the last intact line's hash.

    If no line begins like a line of a chain (`is_one`), the file is another kind of file.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.lines = self.size = 0
        self.last = START
        self.is_one = False
        self._expected = 1
        self._known = True

    def follow(self, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the number and text of each intact line."""
        raw = b""
        for given in lines:
            self.lines += 1
            self.size += len(given)
            raw = given.removeprefix(BOM_UTF8) if self.lines == 1 else given
            # A torn line may be shorter than the beginning of each line.
            self.is_one = self.is_one or raw.startswith(BEGINNING) or BEGINNING.startswith(raw)
            # The last line may lack only its newline.
            line = raw.removesuffix(b"\n")
            if (link := read_link(line)) is not None:
                self._place(link)
                yield self.lines, line
            elif not raw.endswith(b"\n"):
                self._note(Damage.TORN, f"ends in the middle, after {len(raw):,} bytes")
            else:
                is_crlf = raw.endswith(b"\r\n") and read_link(raw[:-2]) is not None
                how = (
                    "an editor, or Git, made its end CR LF"
                    if is_crlf
                    else "its hash does not fit it"
                )
                self._note(Damage.CHANGED, f"differs from the written line: {how}")
                self._expected += 1
                self._known = False
            if not given.endswith(b"\n"):
                break  # the record may grow now, so the rest of this line may come next
        if b"\0" in raw and self.faults and self.faults[-1].line == self.lines:
            # After a loss of power the system may show NULs for bytes that it has not written.
            self.faults.pop()
            self._note(Damage.TORN, f"ends in the middle, after {raw.index(0):,} bytes")

    def _place(self, link: Link) -> None:
        if link.n < self._expected:
            self._note(
                Damage.MISPLACED,
                f"was put in or moved: it is number {link.n:,} of the record, and number "
                f"{self._expected:,} would stand here",
            )
            return
        if link.n > self._expected:
            gone = link.n - self._expected
            missing = f"number {self._expected:,}"
            if gone > 1:
                missing = f"numbers {self._expected:,} to {link.n - 1:,}"
            verb = "is" if gone == 1 else "are"
            self._note(Damage.MISSING, f"comes after a gap: {missing} of the record {verb} missing")
        elif self._known and link.prev != self.last:
            self._note(
                Damage.REPLACED,
                "was written after another line than the one before it, which was replaced",
            )
        self._expected, self.last, self._known = link.n + 1, link.hash, True

    def _note(self, damage: Damage, text: str) -> None:
        self.faults.append(Fault(self.lines, damage, text))


# --- The file


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

        After an `OSError` it is taken back. `RecordError`: a fork of the process with the open
        file.
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
            raise RecordInUseError(
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
