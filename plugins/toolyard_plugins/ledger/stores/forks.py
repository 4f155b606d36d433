"""Locks that a fork of the process waits for: its copy of one would be held for ever."""

from __future__ import annotations

import os
import threading
from typing import Final
from weakref import WeakValueDictionary

PATIENCE: Final = 15.0
"""Seconds for which a fork waits for each: a handler of signals that forks may interrupt whoever
holds it."""

_locks: Final[WeakValueDictionary[int, threading.Lock]] = WeakValueDictionary()
_held: Final[list[threading.Lock]] = []


def awaited_lock() -> threading.Lock:
    """Return a lock that nobody else holds while the process is forked."""
    lock = threading.Lock()
    _locks[id(lock)] = lock
    return lock


def _hold_all() -> None:
    for reference in _locks.valuerefs():
        lock = reference()
        if lock is not None and lock.acquire(timeout=PATIENCE):
            _held.append(lock)


def _let_go() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_let_go, after_in_child=_let_go)
