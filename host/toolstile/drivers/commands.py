"""Commands of a pipeline to its driver: the only two ways in which it waits."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from toolstile.drivers.limit import Limit
from toolstile.resources.exclusive import OneShotGate


class Abandonable(Protocol):
    """The owner of a job: it learns of the abandonment and of the job's end after that."""

    def abandon(self, reason: str) -> None:
        """Close everything the job could still change."""

    def callable_ended(self) -> None:
        """Hear, on its thread, that a handler has ended."""

    def ended_late(self) -> None:
        """Hear that an abandoned job has ended."""


class HandlerTiming:
    """The time that a tool's handler took lately on a worker thread.

    Attributes:
        seconds: The last time, without the way to the thread and back.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = math.inf


@dataclass(slots=True)
class Run:
    """Run this function - a handler, an approver, a hook that waits - within a limit.

    Args:
        function: Called without arguments.
        is_async: Whether calling it gives a coroutine.
        limit: When to give it up.
        owner: The call that it is run for.
        inline: Whether it may run on the driver's own thread, or in its own task.
        uninterruptible: Whether an interruption has to wait until it has ended; a second one
            does not.
        pace: Where to note how long it takes on a worker thread, for the next time.
    """

    function: Callable[[], Any]
    is_async: bool
    limit: Limit
    owner: Abandonable
    inline: bool
    uninterruptible: bool = False
    pace: HandlerTiming | None = None


@dataclass(slots=True)
class WaitFor:
    """Wait until this is granted, within a limit."""

    waitable: OneShotGate
    limit: Limit
    uninterruptible: ClassVar[bool] = False
    pace: ClassVar[None] = None


Step = Run | WaitFor

Staged = Generator[Step, Any, Any]
"""A part of a pipeline: what it asks for, what it is sent for that, what it returns."""
