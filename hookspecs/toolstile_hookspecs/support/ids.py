"""Ids of calls and effects."""

from __future__ import annotations

import os
import secrets
from itertools import count
from time import time_ns

_numbers: count[int]
_random: str
_head: tuple[int, str]
"""The end of a millisecond, in nanoseconds, and the digits that its ids begin with."""


def _begin() -> None:
    """Begin a sequence; its random digits tell this process from those of all hosts."""
    global _numbers, _random, _head  # noqa: PLW0603 - a global is the fastest place
    # The version, 12 random bits, the variant and 14 more of a UUID.
    _random = f"7{secrets.randbits(12):03x}{0x8000 | secrets.randbits(14):04x}"
    # Six random digits, then those that count. The count orders the ids of a millisecond. It is
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
