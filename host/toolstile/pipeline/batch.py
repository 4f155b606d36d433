"""The order that calls dispatched together keep, whatever their timing."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, TypeGuard

from toolstile_hookspecs import Cancellation, Deadline, ToolCall

# --- Gates and queues


class OneShotGate:
    """Something to wait for that happens once.

    Opened from any thread; whoever waits is told through a callback, so that a thread
    and an event loop can both wait for it.
    """

    __slots__ = ("_callbacks", "_lock", "granted")

    def __init__(self) -> None:
        self.granted = False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def open(self) -> None:
        """Let everyone through, now and later; interrupted, it is done again."""
        with self._lock:
            self.granted = True
        # None comes any more.
        for callback in self._callbacks:
            callback()
        self._callbacks = []

    def on_grant(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the gate is open, at once if it is."""
        with self._lock:
            if not self.granted:
                self._callbacks.append(callback)
                return
        callback()


class CommitQueue:
    """A queue in which one holder at a time has the turn, first come, first served."""

    __slots__ = ("_holder", "_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: object | None = None
        self._waiting: deque[tuple[object, OneShotGate]] = deque()

    def take(self, holder: object) -> OneShotGate | None:
        """Take the turn for `holder`, or return the gate that opens when it is its turn."""
        with self._lock:
            if self._holder is None:
                self._holder = holder
                return None
            gate = OneShotGate()
            self._waiting.append((holder, gate))
            return gate

    def take_free(self, holder: object) -> bool:
        """Take the turn for `holder` if it is nobody's; tell whether."""
        with self._lock:
            if self._holder is not None:
                return False
            self._holder = holder
            return True

    @property
    def holder(self) -> object | None:
        """The call that has the turn."""
        return self._holder

    def give_back(self, holder: object) -> None:
        """End the holder's turn, or take it out of the queue; interrupted, it is done again."""
        with self._lock:
            if self._holder is not holder:
                self._leave_queue(holder)
                return
            if not self._waiting:
                self._holder = None
                return
            # Noted before it is so: an interruption may come between the two.
            follows, gate = self._waiting[0]
            gate.open()
            self._holder = follows
            self._waiting.popleft()

    def _leave_queue(self, holder: object) -> None:
        self._waiting = deque(each for each in self._waiting if each[0] is not holder)


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
        self._gates: dict[tuple[Milestone, int], OneShotGate] = {}

    def before(self, milestone: Milestone, index: int) -> OneShotGate:
        """Return the gate that opens when all calls before `index` have passed."""
        with self._lock:
            gate = self._gates.setdefault((milestone, index), OneShotGate())
            reached = self._upto[milestone] >= index
        if reached:
            gate.open()
        return gate

    def after_all(self, milestone: Milestone) -> OneShotGate:
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


# --- Checks of given calls


_REMEDY: Final = (
    "write ToolCall(name, arguments), or have a dialect read the calls of a model's reply"
)


def check_call(call: object) -> None:
    """Refuse what is no call, and a call that could never be ended as it says.

    Raises:
        TypeError: Saying what to write.
    """
    if not isinstance(call, ToolCall):
        kind = type(call).__name__
        raise TypeError(f"what is dispatched is a ToolCall, not {kind}: {_REMEDY}")
    _check_limit(call.deadline, "deadline", Deadline, "Deadline.after(seconds)")
    remedy = "Cancellation(), and keep it to cancel the call"
    _check_limit(call.cancellation, "cancellation", Cancellation, remedy)


def _check_limit(given: object, name: str, kind: type[Any], remedy: str) -> None:
    if given is not None and not isinstance(given, kind):
        found = type(given).__name__
        raise TypeError(
            f"the {name} of a ToolCall is a {kind.__name__}, not {found}: write {remedy}"
        )


def several_calls(given: object) -> list[ToolCall]:
    """Return the calls of a batch.

    Raises:
        TypeError: When they are not several, or one of them is no call; names the first such.
    """
    if not _is_several(given):
        msg = f"what is dispatched at once are several ToolCalls, not {_told(given)}: give a list"
        raise TypeError(msg)
    calls: list[ToolCall] = []
    for index, call in enumerate(given):
        if not isinstance(call, ToolCall):
            msg = (
                "what is dispatched at once are ToolCalls, but the one at index "
                f"{index} is {_told(call)}; none was dispatched: {_REMEDY}"
            )
            raise TypeError(msg)
        calls.append(call)
    return calls


def _is_several(given: object) -> TypeGuard[Iterable[object]]:
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))


def _told(value: object) -> str:
    return "one ToolCall" if isinstance(value, ToolCall) else type(value).__name__
