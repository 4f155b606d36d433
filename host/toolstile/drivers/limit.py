"""Limits: the end of a wait, and the lifetime of a call within that of its caller."""

from __future__ import annotations

import math
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from toolstile_hookspecs import (
    CallClosed,
    Cancellation,
    Deadline,
    DeadlineExceededError,
    ToolCall,
    ToolstileError,
)
from toolstile_hookspecs.support.process import deferred_interrupts, renewed_in_forks
from toolstile_hookspecs.support.text import counted

Callback = Callable[[], object]


class Abandonment:
    """The callbacks that a call's callable has registered; `is_told` once one was called."""

    __slots__ = ("_callbacks", "_lock", "_log_failure", "is_told")

    def __init__(self, log_failure: Callable[[], None]) -> None:
        self.is_told = False
        self._log_failure = log_failure
        self._callbacks: list[Callback] = []
        # Held while they are called: a callable that ends meanwhile, or takes one back, waits.
        self._lock = threading.RLock()

    def add(self, callback: Callback) -> Callable[[], None]:
        """Call a callback when the call is abandoned. Return a function that removes it."""
        with self._lock:
            self._callbacks.append(callback)
        return partial(self._forget, callback)

    def tell(self) -> None:
        """Call each callback, the newest first; log exceptions."""
        with deferred_interrupts(), self._lock:
            while self._callbacks:
                self.is_told = True
                try:
                    self._callbacks.pop()()
                except BaseException:  # noqa: BLE001 - logged; the others are called, too
                    self._log_failure()

    def end(self) -> None:
        """Forget all callbacks, because their work has ended by itself."""
        with self._lock:
            self._callbacks.clear()

    def _forget(self, callback: Callback) -> None:
        with self._lock, suppress(ValueError):
            self._callbacks.remove(callback)


# --- The end of a wait


LOOK: Final = 0.1
"""Seconds after which a waiting driver looks whether its call was stopped."""
# While a timeout stands still it is looked at again after this many seconds.
_LOOK_AGAIN = 0.05
# One for all limits: it is held for moments, and only by calls that begin or end to wait.
_pausing = renewed_in_forks(__name__, "_pausing", threading.Lock)


class TimedOut(ToolstileError):
    """The tool's own timeout has passed while its handler ran."""


class Cancelled(ToolstileError):
    """The call was cancelled from outside."""


class Stopped(Cancelled):
    """A person has stopped the call, perhaps when it had `begun`; the text is the reason.

    If it `is_later`, its approval was not used, so it can be resumed after the stop.
    """

    begun = is_later = False


CANCELLED = "Request was cancelled"
"""The text for a call that was cancelled through its handle."""
INTERRUPTED = "lost its caller, which was interrupted"
"""The reason given when the calling thread was interrupted; follows the tool's name."""
CALLER_CANCELLED = "lost its caller, which was cancelled"
"""The reason given when the calling task was cancelled; follows the tool's name."""


def why_given_up(fault: ToolstileError) -> str:
    """Return why a call ended, as a clause for messages: `timed out after 2 seconds`."""
    if isinstance(fault, TimedOut):
        return str(fault)
    return "was cancelled" if isinstance(fault, Cancelled) else "met the evaluation's deadline"


class Limit:
    """The earlier of a timeout in seconds and a deadline, and a cancellation from outside."""

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
        self._ends = math.inf if timeout is None else time.monotonic() + timeout
        self._paused: float | None = None
        self._pauses = 0

    @property
    def endless(self) -> bool:
        """True when nothing can end it early."""
        return self.timeout is None and self.deadline is None and self.cancellation is None

    def remaining(self, most: float = math.inf) -> float | None:
        """Return the seconds until the next check, at most so many, None for never.

        No more than a thread can wait, so that a century will do as a timeout.
        """
        left = self._ends - (self._paused or time.monotonic())
        if self._paused is not None:
            left = max(left, _LOOK_AGAIN)
        if self.deadline is not None:
            left = min(left, self.deadline.remaining())
        left = min(left, most)
        return None if left == math.inf else min(max(left, 0.0), threading.TIMEOUT_MAX)

    def ends_before(self, other: Limit) -> bool:
        """Tell whether this ends before the other one does."""
        mine, theirs = self.remaining(), other.remaining()
        return mine is not None and (theirs is None or mine < theirs)

    def overrun(self) -> float:
        """Return the seconds since the timeout, 0 if it is not exceeded."""
        return max((self._paused or time.monotonic()) - self._ends, 0.0)

    def fault(self) -> ToolstileError | None:
        """Return why it is over, or None when it is not."""
        if self.cancellation is not None and self.cancellation.aborted:
            return Cancelled(CANCELLED)
        if self.deadline is not None and self.deadline.elapsed():
            return DeadlineExceededError(self.deadline.reason)
        if (self._paused or time.monotonic()) >= self._ends:
            return TimedOut(f"timed out after {counted(self.timeout or 0, 'second')}")
        return None

    def check(self) -> None:
        if (fault := self.fault()) is not None:
            raise fault

    def pause(self) -> None:
        """Stop the timeout's clock until each pause is over; the deadline's clock continues."""
        with _pausing:
            self._pauses += 1
            if self._paused is None:
                self._paused = time.monotonic()

    def resume(self) -> None:
        """End one pause; the timeout's clock continues after the last."""
        with _pausing:
            self._pauses = max(self._pauses - 1, 0)
            if self._paused is not None and not self._pauses:
                self._ends += time.monotonic() - self._paused
                self._paused = None


ENDLESS: Final = Limit()
"""The limit of the steps that nothing ends early."""


# --- The lifetime of a call


# The calls beside it, which are of the same class.
N = TypeVar("N", bound="Lifetime[Any]")
HAS_ENDED: Final = "has ended"
"""The state of a call that was not abandoned."""


class Lifetime(Generic[N]):
    """A call among those nested in one another, from its beginning until it is over.

    Its maker fills the attributes.
    """

    __slots__ = (
        "_forget_left",
        "_left",
        "_runs_on",
        "abandonment",
        "call_made",
        "cancellation",
        "children",
        "closed",
        "deadline",
        "parent",
    )

    call_made: ToolCall  # as it came
    parent: N | None  # the call whose handler made it, None for a top-level one
    cancellation: Cancellation | None  # ends it from outside
    deadline: Deadline | None
    children: list[N] | None  # the nested calls that have not ended; None if it has made none
    closed: str | None  # why it ended, as a clause for messages, also if it was abandoned
    abandonment: Abandonment | None  # the callbacks to call when it is abandoned
    _left: Cancellation | None
    _forget_left: Callback | None
    # Whether its own handler was abandoned, and may not have ended.
    _runs_on: bool

    def begin_within(self, parent: N | None, deadline: Deadline | None) -> None:
        """Take over the bounds of the call, if there are any."""
        self.parent = parent
        if parent is None:
            self.cancellation = self.call_made.cancellation
        else:
            self.cancellation, deadline = parent.cancellation, parent.deadline
        own = self.call_made.deadline
        if deadline is None or (own is not None and own.remaining() < deadline.remaining()):
            deadline = own
        self.deadline = deadline

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in messages."""

    @abstractmethod
    def cut_off(self, reason: str) -> None:
        """Close everything that the handler could still change; see `shut`."""

    @abstractmethod
    def ended_late(self) -> None:
        """Record that an abandoned handler has ended after all."""

    @property
    def root(self) -> N:
        call = cast("N", self)
        while call.parent is not None:
            call = call.parent
        return call

    def limit_without_timeout(self) -> Limit:
        """The limit of everything but the handler: the deadline and the cancellation."""
        deadline, left = self.deadline, self.left()
        return ENDLESS if deadline is None and left is None else Limit(None, deadline, left)

    def left(self) -> Cancellation | None:
        """Return the cancellation of the call, or None if it cannot be cancelled."""
        if self.parent is None:
            return self.cancellation
        if self._left is None:
            self._left = Cancellation()
            if self.cancellation is not None:
                self._forget_left = self.cancellation.on_cancel(self._left.cancel)
            if self.closed is not None:
                self._left.cancel()
        return self._left

    @property
    def was_cancelled(self) -> bool:
        """True when the handle of the call, or of an ancestor, was used."""
        return self.cancellation is not None and self.cancellation.aborted

    def check_limits(self) -> None:
        if self.closed is not None:
            self.check_open()
        if self.cancellation is not None and self.cancellation.aborted:
            raise Cancelled(CANCELLED)
        if self.deadline is not None:
            self.deadline.check()

    def check_open(self) -> None:
        if self.closed is not None:
            raise CallClosed(f"{self.name} {self.closed}, so it can change nothing more.")

    def adopt(self, child: N) -> None:
        """Record a nested call, which must be complete, because it may be abandoned at once."""
        if self.children is None:
            self.children = []
        self.children.append(child)
        if self.closed is not None:
            self._shut_children()

    def abandon(self, reason: str) -> None:
        """Close everything the handler could still change; it may run on for ever."""
        self._runs_on = True
        self.shut(reason)

    def shut(self, reason: str) -> None:
        """Let nothing be done any more for it, or calls within it, for a reason as a clause."""
        if self.closed is not None:
            return
        self.closed = reason
        if self._left is not None:
            self._left.cancel()
        try:
            self.cut_off(reason)
            self._shut_children()
        finally:
            self.tell_abandoned()

    def tell_abandoned(self) -> None:
        """End the work that its callable runs elsewhere."""
        if self.abandonment is not None:
            self.abandonment.tell()

    def callable_ended(self) -> None:
        """Record that the handler, or its stand-in, has ended by itself."""
        if self.abandonment is not None:
            self.abandonment.end()

    def over(self) -> None:
        """End it, as far as the calls around it and its limits are concerned."""
        if self.closed is None:
            self.closed = HAS_ENDED
        elif not self._runs_on:
            self.ended_late()
        self._shut_children()
        if self._forget_left is not None:
            self._forget_left()
        parent = self.parent
        if parent is not None and parent.children and self in parent.children:
            parent.children.remove(cast("N", self))

    def _shut_children(self) -> None:
        for child in list(self.children or ()):
            child.shut(f"was called by {self.name}, which {self.closed}")
