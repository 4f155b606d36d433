"""Fork safety: locks that a fork waits for, and connections closed before it.

A copy of a lock that is held would be held for ever. A copy of an open SQLite file would have
SQLite believe in locks that only the parent has: once that closes the file, its log goes, with all
that the fork still writes to it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakKeyDictionary, ref

T = TypeVar("T")

PATIENCE: Final = 15.0
"""Seconds for which a fork waits for each: a handler of signals that forks may interrupt whoever
holds it."""

_closing: Final[WeakKeyDictionary[threading.Lock, Callable[[], None]]] = WeakKeyDictionary()


class _Held(threading.local):
    """The locks that a thread holds while it forks the process."""

    def __init__(self) -> None:
        self.locks: list[threading.Lock] = []


_held: Final = _Held()


def awaited_lock(owner: T, close: Callable[[T], None]) -> threading.Lock:
    """Return a lock that nobody else holds while the process is forked.

    Args:
        owner: What the lock is of; it lives no longer for that.
        close: Called before a fork with the owner, whose lock is held then.
    """
    lock, still = threading.Lock(), ref(owner)

    def close_owner() -> None:
        owner = still()
        if owner is not None:
            close(owner)

    _closing[lock] = close_owner
    return lock


def _hold_all() -> None:
    for reference in _closing.keyrefs():
        lock = reference()
        if lock is not None and lock.acquire(timeout=PATIENCE):
            _held.locks.append(lock)
            _closing[lock]()


def _let_go() -> None:
    while _held.locks:
        _held.locks.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_let_go, after_in_child=_let_go)
