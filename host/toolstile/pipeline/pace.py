"""Looking out for what ends at once, before a thread sleeps or an event loop turns elsewhere.

To be woken by another thread takes 50 microseconds and more: many times what a small handler
takes. So whoever waits looks out for its end first, as adaptive locks do, yet only of a handler
that was brief the last time, and only for a moment, in which it does nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from time import perf_counter
from typing import Final

BRIEF: Final = 50e-6
"""Seconds: what takes longer is not worth a look-out."""
MOMENT: Final = 100e-6
"""Seconds: how long to look out, with the time that the other thread takes to wake up."""

# It lets other threads run, those that wait for the interpreter among them. Windows has none.
_let_others_run: Callable[[], None] | None = getattr(os, "sched_yield", None)


class Pace:
    """How long the handler of a tool takes on a worker thread, as far as is known.

    Attributes:
        seconds: What it took the last time, without the way to its thread and back.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = math.inf

    @property
    def is_brief(self) -> bool:
        """Whether it may well have ended before whoever waits could be woken."""
        return self.seconds < BRIEF


def look_out(ended: Callable[[], bool]) -> bool:
    """Look for the end of something for a moment, without sleeping.

    Args:
        ended: Tells whether it has ended.

    Returns:
        Whether it has.
    """
    if _let_others_run is None:
        return ended()
    until = perf_counter() + MOMENT
    while not ended():
        if perf_counter() > until:
            return False
        _let_others_run()
    return True
