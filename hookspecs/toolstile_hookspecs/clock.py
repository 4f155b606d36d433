"""Where time comes from: a clock that tests can hold still."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """The two readings that handlers, policies and the host take."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow, for durations and deadlines."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    now = staticmethod(partial(datetime.now, UTC))
    """Return the wall-clock time, aware, in UTC."""

    monotonic = staticmethod(time.monotonic)
    """Return `time.monotonic()`, in seconds."""
