"""Waiting for a turn, in a thread or in a task, as long as the call may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from toolstile.resources.exclusive import Ticket
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import CallClosed, DeadlineExceededError, ResourceError
from toolstile_hookspecs.limits import Cancellation, Deadline
from toolstile_hookspecs.support.event_loop import is_on_loop

# --- The owner of a call scope


class Turn(Protocol):
    """Something that comes one day, and that can be waited for."""

    @property
    def granted(self) -> bool:
        """True when it has come."""
        ...

    def on_grant(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when it comes, at once if it has.

        The callback runs on whichever thread makes it come, and neither raises nor waits.
        """
        ...


class CallOwner(Protocol):
    """The call that resources are for, as the pipeline knows it.

    Its `str()` is how messages name it.
    """

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

    @property
    def parent(self) -> CallOwner | None:
        """The call that made this one, or None."""
        ...

    @property
    def root_id(self) -> Hashable:
        """The identity of the call tree; no other one in the process may be equal to it."""
        ...

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is over or abandoned."""
        ...

    def before_exclusive(self, kind: type[Any]) -> Turn | None:
        """Refuse an exclusive resource by raising, or say what has to come first."""
        ...

    def pause_timeout(self) -> None:
        """Stop counting against the tool's timeout: the call begins to wait."""
        ...

    def resume_timeout(self) -> None:
        """Count again."""
        ...


# --- Waits


# A clock held still in a test, or set ahead, is looked at again after this many seconds.
_LOOK_AGAIN = 60.0


class Waiter(Protocol):
    """The call that waits."""

    @property
    def owner(self) -> CallOwner:
        """The deadline of the wait."""
        ...

    @property
    def wakers(self) -> set[Callable[[], None]]:
        """The functions to call when the call is over."""
        ...

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is over."""
        ...


def block(turn: Turn, waiter: Waiter, name: str) -> None:
    """Wait in this thread.

    Args:
        turn: What to wait for.
        waiter: The call that waits.
        name: The resource, for messages.

    Raises:
        ResourceError: In a thread that runs an event loop, which must not be blocked.
        ResourceBusyError: When the turn is refused.
        DeadlineExceededError: When the deadline passes first.
        CallClosed: When the call is cancelled or over.
    """
    # Not an event: a signal handler can ring this one, too.
    bell: SimpleQueue[None] = SimpleQueue()
    with _listening(turn, waiter, lambda: bell.put(None)):
        _refuse_on_loop(name)
        while not _has_come(turn, waiter, name):
            with suppress(Empty):
                bell.get(timeout=_patience(waiter.owner))


async def suspend(turn: Turn, waiter: Waiter, name: str) -> None:
    """Wait in this task; arguments and errors are those of `block`."""
    loop = asyncio.get_running_loop()
    bell: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        # A loop that is closed has nobody waiting in it any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set, bell)

    with _listening(turn, waiter, ring):
        while not _has_come(turn, waiter, name):
            await asyncio.wait((bell,), timeout=_patience(waiter.owner))


@contextmanager
def _listening(turn: Turn, waiter: Waiter, ring: Callable[[], None]) -> Generator[None]:
    owner = waiter.owner
    owner.pause_timeout()
    forget = owner.cancellation.on_cancel(ring) if owner.cancellation is not None else None
    waiter.wakers.add(ring)
    try:
        turn.on_grant(ring)
        yield
    finally:
        waiter.wakers.discard(ring)
        if forget is not None:
            forget()
        if isinstance(turn, Ticket):
            turn.leave_queue()
        owner.resume_timeout()


def _has_come(turn: Turn, waiter: Waiter, name: str) -> bool:
    if turn.granted:
        return True
    if isinstance(turn, Ticket) and turn.error is not None:
        raise turn.error
    waiter.check_open()
    owner = waiter.owner
    if owner.cancellation is not None and owner.cancellation.aborted:
        raise CallClosed(f"The call was cancelled while it waited for {name}.")
    if owner.deadline is not None and owner.deadline.elapsed():
        raise DeadlineExceededError(f"The deadline passed while the call waited for {name}.")
    return False


def _patience(owner: CallOwner) -> float | None:
    if owner.deadline is None:
        return None
    return min(max(owner.deadline.remaining(), 0.0), _LOOK_AGAIN)


def _refuse_on_loop(name: str) -> None:
    if is_on_loop():
        raise ResourceError(
            f"{name} is held by another call, and waiting for it here would block the event loop; "
            f"write: await context.resources.aget({name})"
        )


def _set(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
