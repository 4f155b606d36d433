"""Ids of calls and effects."""

from __future__ import annotations

import os
import secrets
from itertools import count
from time import time_ns

_numbers: count[int]
_random: str
_head: tuple[int, str]
"""A millisecond, and the digits that its ids begin with."""


def _begin() -> None:
    """Begin a sequence; its random bits tell this process from those of all hosts."""
    global _numbers, _random, _head  # noqa: PLW0603 - a global is the fastest place
    # The version, 12 random bits, the variant and 14 more of a UUID; 24 more are above the count.
    # The count orders the ids of a millisecond, and tells ids apart where the clock is set back.
    _random = f"7{secrets.randbits(12):03x}{0x8000 | secrets.randbits(14):04x}"
    _numbers = count(secrets.randbits(24) << 24)
    _head = 0, ""


_begin()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


def new_id() -> str:
    """Return an id that no other host or process makes, ordered by time.

    It has 32 hexadecimal digits and the layout of a version 7 UUID, which Python makes from 3.14.
    """
    global _head  # noqa: PLW0603 - see `_begin`
    at, head = _head
    # Because each call has an id, what those of a millisecond share is written once.
    if (now := time_ns() // 1_000_000) != at:
        head = f"{now:012x}{_random}"
        _head = now, head
    return "%s%012x" % (head, next(_numbers))  # noqa: UP031 - an f-string takes longer
