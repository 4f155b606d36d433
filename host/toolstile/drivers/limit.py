"""The limit of a wait: its end, and the meaning of passing it."""

from __future__ import annotations

import threading
import time

from toolstile_hookspecs import Cancellation, Deadline, DeadlineExceededError, ToolstileError
from toolstile_hookspecs.support.process import renewed_in_forks
from toolstile_hookspecs.support.text import in_seconds

# One for all limits: it is held for moments, and only by calls that begin or end to wait.
# While a timeout stands still it is looked at again after this many seconds.
_LOOK_AGAIN = 0.05
_pausing = renewed_in_forks(__name__, "_pausing", threading.Lock)


class TimedOut(ToolstileError):
    """The tool's own timeout has passed while its handler ran."""


class Cancelled(ToolstileError):
    """The call was cancelled from outside."""


CANCELLED = "Request was cancelled"
"""The text for a call that was cancelled through its handle."""
INTERRUPTED = "lost its caller, which was interrupted"
"""The reason given when the calling thread was interrupted; follows the tool's name."""
CALLER_CANCELLED = "lost its caller, which was cancelled"
"""The reason given when the calling task was cancelled; follows the tool's name."""


def why_given_up(fault: ToolstileError) -> str:
    """Return what befell a call, to be said after its name: `timed out after 2 seconds`."""
    if isinstance(fault, TimedOut):
        return str(fault)
    return "was cancelled" if isinstance(fault, Cancelled) else "met the evaluation's deadline"


class Limit:
    """The earlier of a timeout and a deadline, and a cancellation.

    Args:
        timeout: Seconds from now, None for never.
        deadline: The deadline of the evaluation, None for never.
        cancellation: Cancels from outside, None where nothing can.
    """

    __slots__ = ("_ends", "_paused", "_pauses", "cancellation", "deadline", "timeout")

    def __init__(
        self,
        timeout: float | None = None,
        deadline: Deadline | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        self.timeout = timeout
        self.deadline = deadline
        self.cancellation = cancellation
        self._ends = None if timeout is None else time.monotonic() + timeout
        self._paused: float | None = None
        self._pauses = 0

    @property
    def endless(self) -> bool:
        """True when nothing can end it early."""
        return self.timeout is None and self.deadline is None and self.cancellation is None

    def remaining(self) -> float | None:
        """Return the seconds left before it has to be looked at again, None for never.

        No more than a thread can wait, so that a century, or infinity, will do.
        """
        left = self._timeout_left()
        if left is not None and self._paused is not None:
            left = max(left, _LOOK_AGAIN)
        if self.deadline is not None:
            until = self.deadline.remaining()
            left = until if left is None else min(left, until)
        return None if left is None else min(max(left, 0.0), threading.TIMEOUT_MAX)

    def pause(self) -> None:
        """Stop the timeout's clock until each pause is over; the deadline's goes on."""
        with _pausing:
            self._pauses += 1
            if self._paused is None:
                self._paused = time.monotonic()

    def resume(self) -> None:
        """End one pause; the timeout's clock goes on after the last."""
        with _pausing:
            if self._pauses:
                self._pauses -= 1
            if self._pauses or self._paused is None:
                return
            if self._ends is not None:
                self._ends += time.monotonic() - self._paused
            self._paused = None

    def fault(self) -> ToolstileError | None:
        """Return why it is over, or None when it is not."""
        if self.cancellation is not None and self.cancellation.aborted:
            return Cancelled(CANCELLED)
        if self.deadline is not None and self.deadline.elapsed():
            return DeadlineExceededError("The deadline of this evaluation has passed.")
        left = self._timeout_left()
        if left is not None and left <= 0:
            return TimedOut(f"timed out after {in_seconds(self.timeout or 0)}")
        return None

    def check(self) -> None:
        """Raise why it is over, if it is."""
        if (fault := self.fault()) is not None:
            raise fault

    def overran(self) -> bool:
        """Tell whether the timeout has been exceeded."""
        ends = self._ends
        return ends is not None and (self._paused or time.monotonic()) > ends

    def overrun(self) -> float:
        """Return by how many seconds the timeout has been exceeded, 0 where it has not."""
        left = self._timeout_left()
        return 0.0 if left is None else max(-left, 0.0)

    def _timeout_left(self) -> float | None:
        if self._ends is None:
            return None
        return self._ends - (self._paused or time.monotonic())

    def ends_before(self, other: Limit) -> bool:
        """Tell whether this ends before the other one does."""
        mine, theirs = self.remaining(), other.remaining()
        return mine is not None and (theirs is None or mine < theirs)
