"""The order that calls dispatched together keep, whatever their timing."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Any, Final

from toolstile.resources.exclusive import OneShotGate
from toolstile_hookspecs import Cancellation, Deadline, ToolCall
from toolstile_hookspecs.support.process import new_id

# --- The queue for the turn to commit


class CommitQueue:
    """A queue that gives the turn to one holder at a time, first come, first served.

    The first in the queue has the turn. A holder that leaves opens the gate of the next
    then. So each step is atomic, and none needs a lock that an interruption could leave locked.
    """

    __slots__ = ("_queue", "gates")

    def __init__(self) -> None:
        self._queue: deque[Any] = deque()
        self.gates: dict[Any, OneShotGate] = {}

    def take(self, holder: Any) -> OneShotGate | None:
        """Take the turn for `holder`, or return the gate that opens when it is its turn."""
        self._queue.append(holder)
        if self._queue[0] is holder:
            return None
        gate = self.gates[holder] = OneShotGate()
        if self._queue[0] is holder:
            # The one before left when there was no gate yet.
            gate.open()
        return gate

    @property
    def holder(self) -> Any:
        """The call that has the turn, None if the turn is free."""
        try:
            return self._queue[0]
        except IndexError:
            return None

    def give_back(self, holder: Any) -> None:
        """End the holder's turn, or take it out of the queue."""
        try:  # noqa: SIM105 - takes a third of the time
            self._queue.remove(holder)
        except ValueError:
            pass  # it has left already where this was interrupted, and is done again
        if self.gates:
            self.gates.pop(holder, None)
            if (gate := self.gates.get(self.holder)) is not None:
                gate.open()


# --- Batches


class Milestone(IntEnum):
    """The gates that a call of a batch passes, in order."""

    ADMITTED = 0
    """All checks and approvals are done."""
    FORKED = 1
    """Its branch is forked, or will be when the earlier calls have ended."""
    CLAIMED = 2
    """Plugins have been asked whether they answer in the handler's place."""
    ENDED = 3
    """It is committed or rolled back."""


OPEN: Final = OneShotGate()
"""The gate of calls that need not wait."""
OPEN.open()


class BatchOrder:
    """Tells each of the `size` calls of a batch when the earlier ones have got far enough.

    It needs no lock, which an interruption could leave locked: a call first notes the milestone
    it has passed, or the gate it waits at, and reads the notes of the others only then.
    """

    __slots__ = ("_gates", "_passed", "_size", "_upto", "card", "id", "stops")

    def __init__(self, size: int, card: Any = None) -> None:
        self.id = new_id()  # for observers
        # The questions of the calls, if a person answers them together.
        self.card = card
        self.stops: Any = None  # a stop ends all calls of the batch, as it ends one
        self._size = size
        # The last milestone that each call has passed.
        self._passed = [-1] * size
        # At least so many have passed; another thread may just have found more.
        self._upto = [0] * len(Milestone)
        self._gates: list[dict[int, OneShotGate]] = [{} for _ in Milestone]

    def before(self, milestone: Milestone, index: int) -> OneShotGate:
        """Return the gate that opens when all calls before `index` have passed."""
        if self._open_passed(milestone) >= index:
            return OPEN
        gate = self._gates[milestone].setdefault(index, OneShotGate())
        if self._open_passed(milestone) >= index:
            # The last of them passed when there was no gate yet.
            gate.open()
        return gate

    def after_all(self, milestone: Milestone) -> OneShotGate:
        """Return the gate that opens when every call has passed."""
        return self.before(milestone, self._size)

    def passed(self, milestone: Milestone, index: int) -> None:
        """Note that a call has passed a milestone, and with it those before."""
        self._passed[index] = max(milestone, self._passed[index])
        for each in range(milestone + 1):
            self._open_passed(each)
        if self.card is not None:
            self.card.passed(milestone, index)

    def _open_passed(self, milestone: int) -> int:
        """Open the gates behind which all have passed; return how many have."""
        passed = self._passed
        reached = self._upto[milestone]
        if reached == self._size or passed[reached] < milestone:
            return reached
        gates = self._gates[milestone]
        while reached < self._size and passed[reached] >= milestone:
            reached += 1
            if (gate := gates.get(reached)) is not None:
                gate.open()
        self._upto[milestone] = reached
        return reached


# --- Checks of given calls


def check_call(call: object) -> None:
    """Refuse anything but a call, and a call whose limits could never end it.

    Raises:
        TypeError: With the line to write instead.
    """
    if not isinstance(call, ToolCall):
        raise TypeError(
            f"what is dispatched is a ToolCall, not {type(call).__name__}: write ToolCall(name, "
            "arguments), or have a dialect read the calls of a model's reply"
        )
    _check_limit(call.deadline, "deadline", Deadline, "Deadline.after(seconds)")
    remedy = "Cancellation(), and keep it to cancel the call"
    _check_limit(call.cancellation, "cancellation", Cancellation, remedy)


def _check_limit(given: object, name: str, kind: type[Any], remedy: str) -> None:
    if given is not None and not isinstance(given, kind):
        found = type(given).__name__
        raise TypeError(
            f"the {name} of a ToolCall is a {kind.__name__}, not {found}: write {remedy}"
        )
