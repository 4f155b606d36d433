"""Counters: amounts that the calls of many sessions and processes reserve within one limit.

`toolstile_hookspecs.testing.CounterContract` shows whether a counter keeps to this.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from toolstile_hookspecs.services.session_store import SessionStore

__all__ = ["Counter", "CountsWithin", "OffersCounter", "Reservation"]


class Reservation(NamedTuple):
    """The answer to a reservation.

    Args:
        granted: Whether it counts from now on.
        used: The sum of what counts under the key, with this one where it is granted.
        wait: Seconds until there will be room for it; None where there will be none.
        is_new: Whether its id was not there before.
    """

    granted: bool
    used: float
    wait: float | None = None
    is_new: bool = True


@runtime_checkable
class Counter(Protocol):
    """Counts in no call's decision: what a call has reserved stays when it is rolled back.

    A policy asks `context.resources.get(Counter)` in its `reserve`; what it takes there is given
    back when another policy refuses the call. The transaction of a session store is open on that
    thread then, and a counter in the same database counts within it.

    Every method raises `StateError`, which says what to do, when nothing can be counted.

    Attributes:
        waits: Whether a reservation may wait, so that it is kept off event loops.
    """

    waits: bool

    @property
    def database(self) -> str | None:
        """The file or address that it counts in; None for memory."""
        ...

    def reserve(  # noqa: PLR0913 - what names and bounds a reservation
        self,
        key: str,
        amount: float,
        limit: float,
        window: float | None,
        id: str,  # noqa: A002 - it is the id
        *,
        now: datetime,
    ) -> Reservation:
        """Let an amount count in full, unless the sum under its key would exceed the limit.

        Args:
            key: What is limited; begin it with the policy's name. Take several in sorted order.
            amount: How much, never below 0; whole numbers are added exactly.
            limit: The most that may count at once.
            window: Seconds after which it counts no more; None to count for good.
            id: Its own id, over all keys and processes. One that counts is granted as before.
            now: The moment, aware. What lies more than its window ahead does not count.
        """
        ...

    def settle(self, id: str, amount: float) -> None:  # noqa: A002 - it is the id
        """Let a reservation count with what it came to, 0 for nothing; an unknown id is over."""

    def read(self, key: str, *, now: datetime) -> float:
        """Return the sum of what counts under a key."""
        ...

    def apart(self, *, anew: bool) -> Counter:
        """Return a counter in memory that goes on from here, or begins anew: for dry runs."""
        ...


@runtime_checkable
class CountsWithin(Protocol):
    """A `Counter` that counts in the open transaction of a `SessionStore`, in its database.

    Beside a session store, a counter with a `database` is one: a connection of its own would wait
    for the transaction that is open on the same thread, so the host does not open.
    """

    @property
    def store(self) -> SessionStore:
        """The store; it says how others write in its transaction, as `SqliteSessions.file`."""
        ...


@runtime_checkable
class OffersCounter(Protocol):
    """A `SessionStore` that brings the counter of its database, which is a `CountsWithin`."""

    def counter(self) -> Counter:
        """Return the counter, always the same one."""
        ...
