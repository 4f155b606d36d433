"""Locks of exclusive resources: one per resource, held by a call tree, queued in order.

A tree holds a lock through the claims of its calls, which stand on one another: only the
innermost one uses the resource, and a call may step in when that one is its own ancestor. So a
savepoint is always undone before the earlier ones. Calls side by side in one tree take
turns, as calls of other trees do.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from toolstile.resources.teardown import name_of
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import (
    CallClosed,
    DeadlineExceededError,
    ResourceBusyError,
    ResourceError,
)
from toolstile_hookspecs.limits import Cancellation, Deadline
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import renewed_in_forks

# --- Calls that would wait for themselves


CURRENT: Final[ContextVar[Any]] = ContextVar("toolstile_current_call", default=None)
"""The call at work here; in a tuple while it has its turn to commit."""


def is_ancestor_waiting(call: object) -> bool:
    """Tell whether a call, or one around it, is at work further out here, and so cannot end."""
    return any(is_within(_call_of(mark), call) for mark in _marks())


def holds_up(call: object) -> bool:
    """Tell whether the code at work here runs within the turn of a call, which so cannot end."""
    return any(mark.__class__ is tuple and mark[0] is call for mark in _marks())


def _marks() -> Iterator[Any]:
    """Yield the marks of the calls at work here, each dispatched within the next."""
    mark = CURRENT.get()
    while mark is not None:
        yield mark
        mark = _call_of(mark).around


def _call_of(mark: Any) -> Any:
    return mark[0] if mark.__class__ is tuple else mark


# --- Gates


class OneShotGate:
    """Something to wait for that happens once: a callback wakes threads and event loops.

    A callback runs on the thread that opens the gate, and neither raises nor waits.

    Each step is atomic, without a lock that an interruption could leave locked: interrupted
    between two of them, opening is done again, and a callback may run twice.
    """

    __slots__ = ("_callbacks", "granted")

    def __init__(self) -> None:
        self.granted = False
        self._callbacks: list[Callable[[], None]] = []

    def open(self) -> None:
        """Let everyone through, now and later."""
        self.granted = True
        for callback in tuple(self._callbacks):
            self._tell(callback)

    def on_grant(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the gate is open, at once if it is."""
        self._callbacks.append(callback)
        if self.granted:
            self._tell(callback)

    def _tell(self, callback: Callable[[], None]) -> None:
        callback()
        # Another thread that opens it may have called it as well.
        with suppress(ValueError):
            self._callbacks.remove(callback)


# --- Locks


log = logging.getLogger(__name__)

# One for all locks: a circle of waiters can only be seen from above. It is held for moments.
_mutex = renewed_in_forks(__name__, "_mutex", threading.RLock)
_locks: WeakValueDictionary[int, ExclusiveLock] = WeakValueDictionary()
# A held lock lives on, even when all that is left of its holder is a thread.
_held: set[ExclusiveLock] = set()


class Claimant(Protocol):
    """A call, as the locks know it; its `str()` is its name in messages."""

    @property
    def parent(self) -> Claimant | None:
        """The call that made this one, or None."""
        ...

    @property
    def root_id(self) -> Hashable:
        """The identity of its call tree."""
        ...


class Ticket(OneShotGate):
    """A place in the queue for a lock; it opens once: granted, or refused with an `error`."""

    __slots__ = ("claim", "error")

    def __init__(self, claim: Claim) -> None:
        super().__init__()
        self.claim = claim
        self.error: ResourceBusyError | None = None

    def leave_queue(self) -> None:
        """Leave the queue, unless the place is taken or left already."""
        with _mutex:
            if self in self.claim.lock.queue:
                self.claim.lock.queue.remove(self)

    def grant(self) -> None:
        lock = self.claim.lock
        if self.claim not in lock.claims:
            lock.claims.append(self.claim)
            _held.add(lock)
        self.leave_queue()
        self.open()

    def refuse(self, error: ResourceBusyError) -> None:
        self.error = error
        self.leave_queue()
        self.open()


class Claim:
    """The ticket of one call for one lock, from its first request to its end.

    Args:
        lock: The lock.
        call: The call.
        waitable: Whether others may wait for it to end; they are refused at once otherwise.
    """

    __slots__ = (
        "_end",
        "_hopeless_from",
        "abandoned",
        "call",
        "ending",
        "lock",
        "over",
        "waitable",
    )

    def __init__(self, lock: ExclusiveLock, call: Claimant, *, waitable: bool = True) -> None:
        self.waitable = waitable
        self.lock = lock
        self.call = call
        self.abandoned = False
        self.ending = False
        self.over = False
        self._hopeless_from = math.inf
        self._end: Callable[[], None] | None = None

    @property
    def held(self) -> bool:
        """True when the lock was granted and not given back."""
        return self in self.lock.claims

    @property
    def hopeless(self) -> bool:
        """True when the call was abandoned and may never end."""
        return time.monotonic() >= self._hopeless_from

    @property
    def above(self) -> Claim | None:
        """The claim that stands directly on this one and has not ended, or None."""
        with _mutex:
            claims = self.lock.claims
            return next(iter(claims[claims.index(self) + 1 :]), None) if self in claims else None

    def request(self, *, fail_fast: bool = False) -> Ticket:
        """Ask for the lock; with `fail_fast`, do not queue for a held lock.

        `ResourceBusyError`: an abandoned call holds it that does not end, waiting would close a
        circle of waiters, or it is held and `fail_fast` is set.
        """
        ticket = Ticket(self)
        with _mutex:
            if self.over or self.abandoned:
                raise self._ended()
            if self.lock.admits(self.call):
                ticket.grant()
            else:
                self.lock.refuse_hopeless(self.call, fail_fast=fail_fast)
                self.lock.queue.append(ticket)
        return ticket

    def abandon(self, *, patience: float = 0.0) -> None:
        """Keep the lock for an abandoned call; others may begin to wait for `patience` seconds."""
        with _mutex:
            self.abandoned = True
            self._hopeless_from = time.monotonic() + patience
            self._refuse_own()
            if self.held and not patience:
                for ticket in list(self.lock.queue):
                    ticket.refuse(self.lock.abandoned_error())

    def leave(self, heir: Claim | None = None) -> None:
        """Give the lock back, or pass it on to the claim of the parent call."""
        with _mutex:
            self.over = True
            self._refuse_own()
            claims = self.lock.claims
            if self in claims:
                place = claims.index(self)
                follows = heir is not None and not heir.over and heir not in claims
                claims[place : place + 1] = [heir] if heir is not None and follows else []
            end = claims[-1].take_end() if claims else None
            if not claims:
                _held.discard(self.lock)
            self.lock.advance()
        if end is not None:
            # It belongs to a call that has ended; the call that ends now is not to blame.
            try:
                end()
            except Exception:
                log.exception("Rolling back %s after an abandoned call failed", self.lock.name)

    def begin_to_end(self) -> Claim | None:
        """Let no claim build on this one. Return the claim that does, or None."""
        with _mutex:
            above = self.above
            self.ending = above is None
        return above

    def open_to_nested(self) -> None:
        """Let claims stand on this one, since its savepoint has begun."""
        with _mutex:
            self.ending = False
            self.lock.advance()

    def when_innermost(self, end: Callable[[], None]) -> None:
        """Run `end` now, or when the claims that stand on this one are gone."""
        with _mutex:
            if self.begin_to_end() is not None:
                self._end = end
                return
        end()

    def take_end(self) -> Callable[[], None] | None:
        """Return the function put off until this claim is the innermost one, once."""
        end, self._end = self._end, None
        self.ending = self.ending or end is not None
        return end

    def _refuse_own(self) -> None:
        for ticket in [each for each in self.lock.queue if each.claim is self]:
            ticket.refuse(self._ended())

    def _ended(self) -> ResourceBusyError:
        return ResourceBusyError(f"{self.call} has ended, so it cannot have {self.lock.name}.")


class ExclusiveLock:
    """The lock of one resource, which it keeps alive."""

    __slots__ = ("__weakref__", "claims", "queue", "resource")

    def __init__(self, resource: Any) -> None:
        self.resource = resource
        self.claims: list[Claim] = []
        self.queue: list[Ticket] = []

    @property
    def name(self) -> str:
        return name_of(type(self.resource))

    def admits(self, call: Claimant) -> bool:
        if not self.claims:
            return True
        innermost = self.claims[-1]
        if innermost.abandoned or innermost.ending:
            return False
        return is_within(call, innermost.call)

    def advance(self) -> None:
        """Grant claims in order, and refuse claims that then wait in a circle."""
        trees: set[Hashable] = set()
        for ticket in list(self.queue):
            if self.admits(ticket.claim.call):
                ticket.grant()
                trees.add(ticket.claim.call.root_id)
        for ticket in _waiting() if trees else ():
            lock, call = ticket.claim.lock, ticket.claim.call
            if call.root_id in trees and (circle := _circle(call, lock)):
                ticket.refuse(lock.circle_error(circle))

    def refuse_hopeless(self, call: Claimant, *, fail_fast: bool) -> None:
        """Raise if a call should not wait for this lock."""
        if any(claim.hopeless for claim in self.claims):
            raise self.abandoned_error()
        holder = self.claims[-1].call
        if fail_fast or not self.claims[-1].waitable:
            raise ResourceBusyError(
                f"{self.name} is held by {holder}, and this call may not wait for it. Retry later."
            )
        circle: Sequence[ExclusiveLock] = _circle(call, self)
        if not circle and holder.root_id != call.root_id and is_ancestor_waiting(holder.root_id):
            circle = [self]
        if circle:
            raise self.circle_error(circle)

    def circle_error(self, circle: Sequence[ExclusiveLock]) -> ResourceBusyError:
        holder, last = self.claims[-1].call, circle[-1].name
        end = "end" if len(circle) == 1 else f"release {last}"
        return ResourceBusyError(
            f"{self.name} is held by {holder}, which waits for this call to {end}. Retry after "
            f"{holder} has ended."
        )

    def abandoned_error(self) -> ResourceBusyError:
        call = next(claim.call for claim in self.claims if claim.abandoned)
        return ResourceBusyError(
            f"{self.name} is still held by an abandoned call of {call}, which has not ended. "
            "It is rolled back when it ends; retry after that."
        )


def lock_of(resource: object) -> ExclusiveLock:
    """Return the one lock of a resource."""
    with _mutex:
        return _locks.setdefault(id(resource), ExclusiveLock(resource))


def is_within(call: Claimant, other: object) -> bool:
    """Return whether a call is another call or a descendant of it."""
    each: Claimant | None = call
    while each is not None and each is not other:
        each = each.parent
    return each is not None


def _circle(call: Claimant, lock: ExclusiveLock) -> list[ExclusiveLock]:
    """Return the held locks through which waiting for `lock` would come back to the call."""
    seen: set[Ticket] = set()

    def search(waiter: Claimant, wanted: ExclusiveLock) -> list[ExclusiveLock]:
        for blocker in (_blocker(claim.call, waiter) for claim in wanted.claims):
            if blocker is None:
                continue
            if is_within(call, blocker):
                return [wanted]
            for ticket in _waiting():
                if ticket not in seen and is_within(ticket.claim.call, blocker):
                    seen.add(ticket)
                    if path := search(ticket.claim.call, ticket.claim.lock):
                        return [wanted, *path]
        return []

    return search(call, lock)


def _blocker(holder: Claimant, waiter: Claimant) -> Claimant | None:
    """Return the call that must end before `waiter` can take over from `holder`, or None.

    Other trees get the lock when the holder's whole tree has ended. In its own tree it goes up
    from call to parent call, until that is one which made the waiter too.
    """
    if is_within(waiter, holder):
        return None
    while holder.parent is not None and not is_within(waiter, holder.parent):
        holder = holder.parent
    return holder


def _waiting() -> list[Ticket]:
    return [ticket for lock in _held for ticket in lock.queue]


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
        """Raise to refuse an exclusive resource, or return the condition to wait for."""
        ...

    def off_loop(self, function: Callable[[], Any]) -> Awaitable[Any]:
        """Call a function that may wait, without blocking an event loop."""
        ...

    def paused(self) -> AbstractContextManager[None]:
        """Stop counting against the tool's timeout: the call waits."""
        ...


# --- Waits


# A clock held still in a test, or set ahead, is looked at again after this many seconds.
_LOOK_AGAIN = 60.0


class Waiter:
    """A call that waits for exclusive resources until it is over, when `wakers` are called."""

    __slots__ = ("_over", "owner", "wakers")

    owner: CallOwner
    wakers: set[Callable[[], None]]
    _over: str | None

    def check_open(self) -> None:
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

        Raises `ResourceError` in a thread that runs an event loop, which must not be blocked,
        `ResourceBusyError` if the turn is refused, `DeadlineExceededError` if the deadline passes
        first, and `CallClosed` if the call is cancelled or over.
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
        """Wait in this task; with the arguments and errors of `block`."""
        loop = asyncio.get_running_loop()
        bell = asyncio.Event()

        def ring() -> None:
            # Nothing waits in a closed loop.
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
