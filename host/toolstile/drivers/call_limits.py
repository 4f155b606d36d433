"""The limits of a call: its deadline, its cancellation, and the end of its caller."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

from toolstile.drivers.limit import CANCELLED, Cancelled, Limit
from toolstile_hookspecs import (
    CallClosed,
    Cancellation,
    Deadline,
    ToolCall,
)

# The calls it is among, which are of its own kind.
N = TypeVar("N", bound="Lifetime[Any]")


class Lifetime(Generic[N]):
    """A call among those nested in one another, from its beginning until it is over.

    Attributes:
        call_made: The call as it came.
        parent: The call whose handler made it, None for a top-level one.
        cancellation: The handle that ends it from outside, None where nothing does.
        deadline: When it must have ended, None for never.
        children: The nested calls that have not ended, None where it has made none.
        closed: What befell it, to be said after its name, once it is abandoned or has ended.
        when_abandoned: Called when it is abandoned.
    """

    __slots__ = (
        "_forget_left",
        "_left",
        "_runs_on",
        "call_made",
        "cancellation",
        "children",
        "closed",
        "deadline",
        "parent",
        "when_abandoned",
    )

    # Whoever makes one fills them.
    call_made: ToolCall
    parent: N | None
    cancellation: Cancellation | None
    deadline: Deadline | None
    children: list[N] | None
    closed: str | None
    when_abandoned: Callable[[], None] | None
    _left: Cancellation | None
    _forget_left: Callable[[], None] | None
    # Whether its own handler was given up, and may not have ended.
    _runs_on: bool

    def begin_within(self, parent: N | None, deadline: Deadline | None) -> None:
        """Take over what bounds the call, where anything does."""
        call = self.call_made
        if parent is None:
            self.cancellation = call.cancellation
            self.deadline = deadline if call.deadline is None else _earlier(deadline, call.deadline)
        else:
            self.parent = parent
            self.cancellation = parent.cancellation
            self.deadline = _earlier(parent.deadline, call.deadline)

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in messages."""

    @abstractmethod
    def cut_off(self, reason: str) -> None:
        """Close everything that the handler could still change.

        Args:
            reason: What befell the call, to be said after its name.
        """

    @abstractmethod
    def ended_late(self) -> None:
        """Hear that an abandoned handler, or what abandoned this call, has ended after all."""

    @property
    def root(self) -> N:
        """The top-level call of its tree."""
        run = cast("N", self)
        while run.parent is not None:
            run = run.parent
        return run

    def limit_without_timeout(self) -> Limit:
        """The limit of everything but the handler: the deadline and the cancellation."""
        return Limit(None, self.deadline, self.left())

    def left(self) -> Cancellation | None:
        """Return what tells that nobody waits for the call any more, None where nothing can."""
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
        """True when the handle of the call, or of one that made it, was used."""
        return self.cancellation is not None and self.cancellation.aborted

    def check_limits(self) -> None:
        """Raise when the call is cancelled, abandoned or out of time."""
        if self.closed is not None:
            self.check_open()
        # What `was_cancelled` tells: this is asked several times in every call.
        if self.cancellation is not None and self.cancellation.aborted:
            raise Cancelled(CANCELLED)
        if self.deadline is not None:
            self.deadline.check()

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is abandoned or has ended."""
        if self.closed is not None:
            msg = f"{self.name} {self.closed}, so nothing can be done on its behalf any more."
            raise CallClosed(msg)

    def abandon(self, reason: str) -> None:
        """Close everything the handler could still change; it may run on for ever."""
        self._runs_on = True
        self.shut(reason)

    def over(self) -> None:
        """End it, as far as the calls around it and its limits are concerned."""
        if self.closed is None:
            self.closed = HAS_ENDED
        elif not self._runs_on:
            self.ended_late()
        if self.children:
            self._shut_children()
        if self._forget_left is not None:
            self._forget_left()
        if self.parent is not None:
            self.parent.disown(cast("N", self))

    def shut(self, reason: str) -> None:
        """Let nothing be done any more on its behalf, nor on that of the calls within it.

        Args:
            reason: What befell it, to be said after its name.
        """
        if self.closed is not None:
            return
        self.closed = reason
        if self.when_abandoned is not None:
            self.when_abandoned()
        if self._left is not None:
            self._left.cancel()
        self.cut_off(reason)
        self._shut_children()

    def _shut_children(self) -> None:
        for child in list(self.children or ()):
            child.shut(f"was called by {self.name}, which {self.closed}")

    def adopt(self, child: N) -> None:
        """Take note of a nested call, which has to be complete: it may be abandoned at once."""
        if self.children is None:
            self.children = []
        self.children.append(child)
        if self.closed is not None:
            self._shut_children()

    def disown(self, child: N) -> None:
        """Forget a nested call that has ended."""
        if self.children is not None and child in self.children:
            self.children.remove(child)


HAS_ENDED: Final = "has ended"
"""The state of a call that was not abandoned."""


def _earlier(one: Deadline | None, other: Deadline | None) -> Deadline | None:
    if one is None or other is None:
        return one or other
    return one if one.remaining() <= other.remaining() else other
