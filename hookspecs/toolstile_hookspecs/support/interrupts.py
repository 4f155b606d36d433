"""Ctrl-C in the middle of a commit, a rollback or the building of a resource: it waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, ClassVar


class _Deferral:
    """The one deferral of the process: calls of a batch, or of an event loop, overlap in it."""

    blocks = 0
    previous: Callable[[int, FrameType | None], Any]
    signals: ClassVar[list[tuple[int, FrameType | None]]] = []


@contextmanager
def deferred_interrupts() -> Generator[None]:
    """Defer SIGINT, on the main thread, to the end of the block.

    A signal that would raise in the middle of a commit raises after it. The previous handler
    is back then and is called: asyncio's own works, and an application's.
    """
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if is_main else None
    if not callable(handler):
        yield
        return
    if handler is not _defer:
        _Deferral.previous = handler
        _Deferral.blocks = 0
        signal.signal(signal.SIGINT, _defer)
    _Deferral.blocks += 1
    try:
        yield
    finally:
        _Deferral.blocks -= 1
        if not _Deferral.blocks:
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
    _Deferral.signals.append((number, frame))


def _raise_deferred() -> None:
    signal.signal(signal.SIGINT, _Deferral.previous)
    if _Deferral.signals:
        last = _Deferral.signals[-1]
        _Deferral.signals.clear()
        _Deferral.previous(*last)
