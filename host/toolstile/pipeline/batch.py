"""The order that calls dispatched together keep, whatever their timing."""

from __future__ import annotations

import threading
from enum import IntEnum

from toolstile.pipeline.gates import Gate


class Milestone(IntEnum):
    """What a call of a batch passes, in order."""

    ADMITTED = 0
    """All checks and approvals are done."""
    FORKED = 1
    """Its branch is forked, or will be when the earlier calls have ended."""
    CLAIMED = 2
    """Plugins have been asked whether they answer in the handler's place."""
    ENDED = 3
    """It is committed or rolled back."""


class BatchOrder:
    """Tells each call of a batch when the earlier ones have got far enough.

    Args:
        size: The number of calls.
    """

    __slots__ = ("_gates", "_lock", "_passed", "_size", "_upto")

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._passed = [[False] * size for _ in Milestone]
        self._upto = [0] * len(Milestone)
        self._gates: dict[tuple[Milestone, int], Gate] = {}

    def before(self, milestone: Milestone, index: int) -> Gate:
        """Return the gate that opens when all calls before `index` have passed."""
        with self._lock:
            gate = self._gates.setdefault((milestone, index), Gate())
            reached = self._upto[milestone] >= index
        if reached:
            gate.open()
        return gate

    def after_all(self, milestone: Milestone) -> Gate:
        """Return the gate that opens when every call has passed."""
        return self.before(milestone, self._size)

    def passed(self, milestone: Milestone, index: int) -> None:
        """Note that a call has passed a milestone, and with it those before.

        Interrupted, it is done again.
        """
        with self._lock:
            for each in Milestone:
                if each <= milestone:
                    self._note(each, index)

    def _note(self, milestone: Milestone, index: int) -> None:
        passed = self._passed[milestone]
        passed[index] = True
        reached = self._upto[milestone]
        while reached < self._size and passed[reached]:
            reached += 1
            if (gate := self._gates.get((milestone, reached))) is not None:
                gate.open()
        # Last of all: interrupted before, the gates are opened when it is noted again.
        self._upto[milestone] = reached
