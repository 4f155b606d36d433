"""One process among others: deferred Ctrl-C, forks, closing at exit, ids, durable names."""

from __future__ import annotations

import atexit
import os
import secrets
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import ContextDecorator, contextmanager, suppress
from importlib import import_module
from io import BufferedWriter, FileIO
from itertools import count
from pathlib import Path
from signal import SIGINT
from time import time_ns
from types import FrameType
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

# --- Interruptions


MAX_DEFERRED: Final = 3
# The functions of `signal` make enums of handlers first, which takes ten times as long.
_signal: Final[Any] = import_module("_signal")
_main_thread = threading.main_thread().ident


class _Deferral:
    """A handler of SIGINT that keeps signals until the last open block ends, or the third comes."""

    def __init__(self, previous: Callable[[int, FrameType | None], Any]) -> None:
        self.previous = previous
        self.blocks = 0
        self._signals: list[tuple[int, FrameType | None]] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._signals.append((number, frame))
        # Another signal may have come in the middle of this one.
        if len(self._signals) >= MAX_DEFERRED:
            self.end()

    def end(self) -> None:
        """Put the previous handler back, if no other is there, then give it the last signal."""
        current: object = _signal.signal(SIGINT, self.previous)
        if current is not self:
            _signal.signal(SIGINT, current)
        if signals := self._signals:
            self._signals = []
            self.previous(*signals[-1])


class deferred_interrupts(ContextDecorator):  # noqa: N801 - used as a function, in most calls
    """Defer SIGINT, on the main thread, to the end of the last open block.

    A signal within a commit raises after it; the third one at once, for a person before a commit
    that hangs. The previous handler gets it: asyncio's own works, and an application's.
    """

    _deferral: _Deferral | None = None

    def __enter__(self) -> None:
        if threading.get_ident() != _main_thread:
            return
        handler = _signal.getsignal(SIGINT)
        if handler.__class__ is not _Deferral:
            if not callable(handler):
                return
            handler = _Deferral(handler)
            _signal.signal(SIGINT, handler)
        handler.blocks += 1
        self._deferral = handler

    def __exit__(self, *error: object) -> None:
        if (deferral := self._deferral) is not None:
            deferral.blocks -= 1
            if not deferral.blocks:
                deferral.end()

    def _recreate_cm(self) -> Self:
        # Each call of a decorated function is a separate block.
        return type(self)()


@contextmanager
def allowed_interrupts() -> Generator[None]:
    """Let SIGINT through for foreign code, within a block that defers it."""
    is_main = threading.get_ident() == threading.main_thread().ident
    deferral: object = _signal.getsignal(SIGINT) if is_main else None
    if not isinstance(deferral, _Deferral):
        yield
        return
    try:
        deferral.end()
        yield
    finally:
        _signal.signal(SIGINT, deferral)


# --- Forks


T = TypeVar("T")


def renewed_in_forks(module: str, name: str, make: Callable[[], T]) -> T:
    """Return a lock of a module, which each fork of the process replaces by a new one.

    A thread that the fork does not have may hold the old one.
    """

    def renew() -> None:
        setattr(sys.modules[module], name, make())

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return make()


_closed_at_exit: Final[WeakSet[Any]] = WeakSet()


def close_at_exit(owner: Any) -> None:
    """Close an object, by its `close()`, when the process ends and the object still exists."""
    _closed_at_exit.add(owner)


@atexit.register
def _close_rest() -> None:
    for owner in list(_closed_at_exit):
        owner.close()


_opening = threading.RLock()
_unshared: Final[WeakSet[FileIO]] = WeakSet()


def unshared(
    path: str | os.PathLike[str], flags: int, mode: int = 0o600, *, folder: int | None = None
) -> FileIO:
    """Open a file that is locked, so that no fork of the process keeps the lock.

    A lock belongs to the open file, which a child shares: it would last as long as the child. In
    the child the descriptor leads to the null device. The arguments are as for `os.open`.
    """
    with _opening:
        _unshared.add(file := FileIO(os.open(path, flags, mode, dir_fd=folder)))
    return file


OF_PARENT: Final = (
    "This host was opened before the process was forked: its threads, connections and locks are "
    "the parent's. Make a Host in the child."
)
left_in_forks: Final[WeakSet[Any]] = WeakSet()
"""Objects whose `leave_to_parent()` is called in a child."""


def _let_go() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for file in _unshared:
        if not file.closed:
            os.dup2(nowhere, file.fileno())
    os.close(nowhere)
    for owner in left_in_forks:
        owner.leave_to_parent()
    _opening.release()


if hasattr(os, "register_at_fork"):
    # No fork comes between the opening of a file and the note of it.
    os.register_at_fork(
        before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_let_go
    )


_numbers: count[int]
_random: str
_head: tuple[int, str]
"""The end of a millisecond, in nanoseconds, and the digits that its ids begin with."""


def _begin() -> None:
    """Begin a sequence, with random digits that distinguish this process from all others."""
    global _numbers, _random, _head  # noqa: PLW0603 - a global is the fastest place
    # The version, 12 random bits, the variant and 14 more of a UUID.
    _random = f"7{secrets.randbits(12):03x}{0x8000 | secrets.randbits(14):04x}"
    # Six random digits, then the count, which orders the ids of a millisecond. It is
    # decimal, because an f-string writes that faster, and such digits are hexadecimal, too.
    _numbers = count((100_000 + secrets.randbelow(800_000)) * 1_000_000)
    _head = 0, ""


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


def new_id() -> str:
    """Return an id that no other host or process makes, ordered by time.

    It has 32 hexadecimal digits and the layout of a version 7 UUID, which Python makes from 3.14.
    If the clock is set back, ids keep the last millisecond until the clock has passed it again.
    """
    global _head  # noqa: PLW0603 - see `_begin`
    end, head = _head
    # Because each call has an id, the digits that a millisecond's ids share are written once.
    if (now := time_ns()) >= end:
        milliseconds = now // 1_000_000
        head = f"{milliseconds:012x}{_random}"
        _head = (milliseconds + 1) * 1_000_000, head
    return f"{head}{next(_numbers)}"


def make_directory(directory: Path, mode: int = 0o777) -> None:
    """Make a directory, with those above, unless it is there; the names survive a loss of power."""
    missing = [each for each in (directory, *directory.parents) if not each.is_dir()]
    directory.mkdir(mode, parents=True, exist_ok=True)
    for each in missing:
        sync_names(each.parent)


@contextmanager
def replaced(file: Path, mode: int = 0o600) -> Generator[BufferedWriter]:
    """Yield a file that replaces another at the end, so that a crash never leaves half of it.

    It has the mode of the old file, else `mode`. If the block raises, the old file stays.
    """
    with suppress(FileNotFoundError):
        mode = file.stat().st_mode & 0o777
    # Because a folder may hold a link of any foreseeable name, the new file's is random.
    spare = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        # Else another user could open the file before it has its mode.
        spare.touch(0o600, exist_ok=False)
        spare.chmod(mode)
        with spare.open("wb") as new:
            yield new
            new.flush()
            # Else a loss of power may leave an empty file under the name.
            os.fsync(new.fileno())
        spare.replace(file)
        sync_names(file.parent)
    finally:
        spare.unlink(missing_ok=True)


def sync_names(directory: Path) -> None:
    """Have the names in a directory survive a loss of power, as `os.fsync` does for a file."""
    # Windows opens no directory; a user who cannot read one cannot sync it.
    with suppress(PermissionError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
