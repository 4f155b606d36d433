"""Locks of the whole process, which a fork of it must not find held for ever."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TypeVar

L = TypeVar("L")


def renewed_in_forks(module: str, name: str, make: Callable[[], L]) -> L:
    """Return a lock of a module, in whose place each fork of the process gets one of its own.

    A thread may hold the old one at that moment, and a fork does not have that thread.

    Args:
        module: The module's name.
        name: What the module calls the lock.
        make: Makes one.
    """

    def renew() -> None:
        setattr(sys.modules[module], name, make())

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return make()
