"""Interruptions and forks of the process: Ctrl-C that waits, locks and files that a child gets."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import FileIO
from types import FrameType
from typing import Any, ClassVar, Final, TypeVar
from weakref import WeakSet

# --- Interruptions


MAX_DEFERRED: Final = 3


class _Deferral:
    """The one deferral of the process: calls of a batch, or of an event loop, overlap in it."""

    blocks = 0
    awaited = 0
    previous: Callable[[int, FrameType | None], Any]
    signals: ClassVar[list[tuple[int, FrameType | None]]] = []


@contextmanager
def deferred_interrupts() -> Generator[None]:
    """Defer SIGINT, on the main thread, to the end of the block.

    A signal that would raise in the middle of a commit raises after it, whatever began later; the
    third one raises at once, for a person before a commit that hangs. The previous handler is
    called: asyncio's own works, and an application's.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main else None
    if not callable(handler):
        yield
        return
    if handler is not _defer:
        _Deferral.previous = handler
        _Deferral.blocks = 0
        _Deferral.signals.clear()
        signal.signal(signal.SIGINT, _defer)
    _Deferral.blocks += 1
    is_late = bool(_Deferral.signals)
    try:
        yield
    finally:
        _Deferral.blocks -= 1
        _Deferral.awaited -= not is_late
        if not _Deferral.blocks or (_Deferral.signals and not _Deferral.awaited):
            _raise_deferred()


@contextmanager
def allowed_interrupts() -> Generator[None]:
    """Let SIGINT through for the block, within one that defers it: foreign code runs in it."""
    blocks = _Deferral.blocks
    if not blocks or threading.current_thread() is not threading.main_thread():
        yield
        return
    _Deferral.blocks = 0
    _raise_deferred()
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _defer)
        _Deferral.blocks = blocks


def _defer(number: int, frame: FrameType | None) -> None:
    if not _Deferral.signals:
        _Deferral.awaited = _Deferral.blocks
    _Deferral.signals.append((number, frame))
    if len(_Deferral.signals) == MAX_DEFERRED:
        _raise_deferred()


def _raise_deferred() -> None:
    if not _Deferral.blocks or len(_Deferral.signals) == MAX_DEFERRED:
        signal.signal(signal.SIGINT, _Deferral.previous)
    if _Deferral.signals:
        last = _Deferral.signals[-1]
        _Deferral.signals.clear()
        _Deferral.previous(*last)


# --- Forks


T = TypeVar("T")


def renewed_in_forks(module: str, name: str, make: Callable[[], T]) -> T:
    """Return a lock of a module that each fork of the process replaces by one of its own.

    A thread may hold the old one at that moment, and a fork does not have that thread.
    """

    def renew() -> None:
        setattr(sys.modules[module], name, make())

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return make()


_opening = threading.RLock()
_unshared: Final[WeakSet[FileIO]] = WeakSet()


def unshared(
    path: str | os.PathLike[str], flags: int, mode: int = 0o600, *, folder: int | None = None
) -> FileIO:
    """Open a file that is locked, so that no fork of the process keeps the lock.

    A lock belongs to the open file, which a child shares: it would last as long as the child. In
    the child the descriptor leads to the null device. The arguments are those of `os.open`.
    """
    with _opening:
        _unshared.add(file := FileIO(os.open(path, flags, mode, dir_fd=folder)))
    return file


OF_PARENT: Final = (
    "This host was opened before the process was forked: its threads, connections and locks are "
    "the parent's. Make a Host in the child."
)
left_in_forks: Final[WeakSet[Any]] = WeakSet()
"""Told to leave what they hold to the parent, in a child."""


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
