"""Ids of calls and effects."""

from __future__ import annotations

import os
import secrets
from itertools import count
from time import time_ns

_numbers: count[int]


def _begin() -> None:
    """Begin a sequence; its random bits tell this process from those of all hosts."""
    global _numbers  # noqa: PLW0603 - each call has an id, and a global is the fastest place
    # The version, the variant and 38 random bits of a UUID. The count below them orders the ids of
    # a millisecond, and tells ids apart where the clock is set back.
    _numbers = count(7 << 76 | 2 << 62 | secrets.randbits(38) << 24)


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


def new_id() -> str:
    """Return an id that no other host or process makes, ordered by time.

    It has 32 hexadecimal digits and the layout of a version 7 UUID, which Python makes from 3.14.
    """
    # An f-string takes longer.
    return "%032x" % ((time_ns() // 1_000_000 << 80) + next(_numbers))
