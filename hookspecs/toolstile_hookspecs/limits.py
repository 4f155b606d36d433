"""Limits of a call: deadline, heartbeat, token budget, cancellation and clock."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, Protocol, cast, runtime_checkable

from toolstile_hookspecs.errors import DeadlineExceededError, DefinitionError
from toolstile_hookspecs.support.process import renewed_in_forks

# --- Clocks


@runtime_checkable
class Clock(Protocol):
    """The source of time for handlers, policies and the host."""

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


# --- Limits


_SYSTEM: Final = SystemClock()
# One lock for all cancellations: it is held for moments only.
_cancelling = renewed_in_forks(__name__, "_cancelling", threading.Lock)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The latest end of an evaluation, on a monotonic clock.

    Args:
        at: The moment, as a reading of `clock.monotonic()`, in seconds.
        clock: The clock the moment belongs to.
        reason: The text of the error once it has passed.

    Raises:
        DefinitionError: If the moment is not a number, so that it would never come.

    Example:
        >>> Deadline.after(30).elapsed()
        False
    """

    at: float
    clock: Clock = _SYSTEM
    reason: str = "The deadline of this evaluation has passed."

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.at), (int, float)) or math.isnan(self.at):
            raise DefinitionError(f"Deadline {self.at!r} would never come; give a number, or none.")

    @classmethod
    def after(cls, seconds: float | timedelta, *, clock: Clock | None = None) -> Deadline:
        """Return the deadline that many seconds from now."""
        clock = clock or _SYSTEM
        left: Any = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        return cls(clock.monotonic() + left if isinstance(left, (int, float)) else left, clock)

    @classmethod
    def until(cls, moment: datetime, *, clock: Clock | None = None) -> Deadline:
        """Return the deadline at an aware wall-clock moment.

        Raises:
            DefinitionError: If the moment has no time zone.
        """
        if moment.tzinfo is None:
            raise DefinitionError(f"Deadline {moment} has no time zone; give an aware datetime.")
        return cls.after(moment - (clock or _SYSTEM).now(), clock=clock)

    def remaining(self) -> float:
        """Return the seconds left, negative once it has passed."""
        return self.at - self.clock.monotonic()

    def elapsed(self) -> bool:
        """Tell whether the moment has passed."""
        return self.remaining() <= 0

    def check(self) -> None:
        """Raise `DeadlineExceededError` once the moment has passed."""
        if self.elapsed():
            raise DeadlineExceededError(self.reason)


class Heartbeat:
    """The sign of life of a long operation.

    Args:
        on_beat: Called at each beat, on the beating thread; extends a lease, say.
        clock: The clock that times the beats.
    """

    def __init__(
        self, on_beat: Callable[[], None] | None = None, *, clock: Clock | None = None
    ) -> None:
        self._on_beat = on_beat
        self._clock = clock or _SYSTEM
        self._last = self._clock.monotonic()

    def beat(self) -> None:
        """Record that the work is alive."""
        self._last = self._clock.monotonic()
        if self._on_beat is not None:
            self._on_beat()

    def elapsed(self) -> float:
        """Return the seconds since the last beat."""
        return self._clock.monotonic() - self._last


@runtime_checkable
class BudgetTracker(Protocol):
    """Counts the spending of an evaluation; bind one as a resource to share it with handlers."""

    def spend(self, amount: float, unit: str = "tokens") -> None:
        """Record spending; raises when the budget does not allow it."""

    def remaining(self, unit: str = "tokens") -> float | None:
        """Return the rest of the budget in a unit, or None without a limit."""
        ...


class Cancellation:
    """Cancels a call from outside, from any thread.

    Give it to `ToolCall(cancellation=...)`; handlers have it as `context.abort_signal`.

    Example:
        >>> stop = Cancellation()
        >>> stop.cancel()
        >>> stop.aborted
        True
    """

    # On the class: each call has one, and few are ever used.
    aborted: bool = False
    _callbacks: tuple[Callable[[], object], ...] = ()

    def cancel(self) -> None:
        """Cancel; a second time changes nothing."""
        with _cancelling:
            if self.aborted:
                return
            self.aborted = True
            callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once cancelled, or at once; return a function that takes it back.

        The callback runs on the cancelling thread and must not raise or wait.
        """
        with _cancelling:
            if not self.aborted:
                self._callbacks = (*self._callbacks, callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], object]) -> None:
        with _cancelling, suppress(ValueError):
            at = self._callbacks.index(callback)
            self._callbacks = self._callbacks[:at] + self._callbacks[at + 1 :]
