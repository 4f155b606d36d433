"""Waiting for a turn, in a thread or in a task, as long as the call may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from toolstile.resources.exclusive import Claimant, OneShotGate, Ticket
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import CallClosed, DeadlineExceededError, ResourceError
from toolstile_hookspecs.limits import Cancellation, Deadline
from toolstile_hookspecs.support.event_loop import is_on_loop

# --- The owner of a call scope


class CallOwner(Claimant, Protocol):
    """The call that resources are for, as the pipeline knows it."""

    @property
    def context(self) -> ToolContext:
        """The context of the call; there from the first `get` on."""
        ...

    @property
    def deadline(self) -> Deadline | None:
        """The deadline of a wait."""
        ...

    @property
    def cancellation(self) -> Cancellation | None:
        """The cancellation that ends a wait from outside."""
        ...

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is over or abandoned."""

    def before_exclusive(self, kind: type[Any]) -> OneShotGate | None:
        """Refuse an exclusive resource by raising, or say what has to come first."""
        ...

    def off_loop(self, function: Callable[[], Any]) -> Awaitable[Any]:
        """Call a function that may wait, while an event loop goes on."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Stop counting against the tool's timeout: the call waits."""
        ...


# --- Waits


# A clock held still in a test, or set ahead, is looked at again after this many seconds.
_LOOK_AGAIN = 60.0


class Waiter:
    """A call that waits for exclusive resources, until it is over.

    Attributes:
        owner: The call.
        wakers: The functions to call when it is over.
    """

    __slots__ = ("_over", "owner", "wakers")

    owner: CallOwner
    wakers: set[Callable[[], None]]
    _over: str | None

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is over."""
        if self._over is not None:
            raise CallClosed(self._over)
        self.owner.check_open()

    def _end(self, reason: str) -> None:
        if self._over is None:
            self._over = reason
        for wake in list(self.wakers):
            wake()

    def block(self, turn: OneShotGate, name: str) -> None:
        """Wait in this thread for the turn to have a resource, by its name in messages.

        Raises:
            ResourceError: In a thread that runs an event loop, which must not be blocked.
            ResourceBusyError: When the turn is refused.
            DeadlineExceededError: When the deadline passes first.
            CallClosed: When the call is cancelled or over.
        """
        # Not an event: a signal handler can ring this one, too.
        bell: SimpleQueue[None] = SimpleQueue()
        with self._listening(turn, lambda: bell.put(None)):
            if is_on_loop():
                raise ResourceError(
                    f"{name} is held by another call, and waiting for it here would block the "
                    f"event loop; write: await context.resources.aget({name})"
                )
            while not self._has_come(turn, name):
                with suppress(Empty):
                    bell.get(timeout=_patience(self.owner))

    async def suspend(self, turn: OneShotGate, name: str) -> None:
        """Wait in this task; arguments and errors are those of `block`."""
        loop = asyncio.get_running_loop()
        bell = asyncio.Event()

        def ring() -> None:
            # A loop that is closed has nobody waiting in it any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(bell.set)

        with self._listening(turn, ring):
            while not self._has_come(turn, name):
                with suppress(TimeoutError):
                    await asyncio.wait_for(bell.wait(), _patience(self.owner))

    @contextmanager
    def _listening(self, turn: OneShotGate, ring: Callable[[], None]) -> Generator[None]:
        with self.owner.paused(), ExitStack() as stack:
            if self.owner.cancellation is not None:
                stack.callback(self.owner.cancellation.on_cancel(ring))
            if isinstance(turn, Ticket):
                stack.callback(turn.leave_queue)
            self.wakers.add(ring)
            stack.callback(self.wakers.discard, ring)
            turn.on_grant(ring)
            yield

    def _has_come(self, turn: OneShotGate, name: str) -> bool:
        if isinstance(turn, Ticket) and turn.error is not None:
            raise turn.error
        if turn.granted:
            return True
        self.check_open()
        owner = self.owner
        if owner.cancellation is not None and owner.cancellation.aborted:
            raise CallClosed(f"The call was cancelled while it waited for {name}.")
        if owner.deadline is not None and owner.deadline.elapsed():
            raise DeadlineExceededError(f"The deadline passed while the call waited for {name}.")
        return False


def _patience(owner: CallOwner) -> float | None:
    if owner.deadline is None:
        return None
    return min(max(owner.deadline.remaining(), 0.0), _LOOK_AGAIN)
