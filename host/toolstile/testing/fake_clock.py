"""A clock that stands still until a test lets time pass."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """A clock that goes on when told to; both readings go on together.

    Args:
        start: The time it begins with, aware.

    Raises:
        ValueError: The time is not aware, or time is to go back.

    Example:
        >>> clock = FakeClock()
        >>> clock.advance(90)
        >>> clock.now().isoformat()
        '2026-01-01T12:01:30+00:00'
    """

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            msg = f"FakeClock: start {start} has no time zone; write datetime(..., tzinfo=UTC)."
            raise ValueError(msg)
        self._start = start.astimezone(UTC)
        self._passed = timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Return the seconds that have passed since the clock was made."""
        return self._passed.total_seconds()

    def advance(self, by: float | timedelta) -> None:
        """Let seconds, or a `timedelta`, pass."""
        passed = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if passed < timedelta():
            msg = f"FakeClock: time cannot go back by {-passed}; make a new clock instead."
            raise ValueError(msg)
        with self._lock:
            self._passed += passed

    def __repr__(self) -> str:
        """Say what time it is."""
        return f"FakeClock({self.now().isoformat()})"
