"""Counters: amounts that the calls of many sessions and processes reserve within one limit.

`toolstile_hookspecs.testing.CounterContract` tests a counter.
"""

# pyright: reportReturnType=false

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from toolstile_hookspecs.services.session_store import SessionStore


class Reservation(NamedTuple):
    """The answer to a reservation.

    Args:
        granted: Whether the amount counts from now on.
        used: The sum of the key, this amount included if granted.
        wait: Seconds until there will be room; None if there will be none.
        is_new: Whether the id is new.
    """

    granted: bool
    used: float
    wait: float | None = None
    is_new: bool = True


@runtime_checkable
class Counter(Protocol):
    """Counts outside of calls' transactions: a reservation outlives the rollback of its call.

    A policy asks `context.resources.get(Counter)` in its `reserve`. If another policy then refuses
    the call, the reservation is given back. The transaction of a session store is open on that
    thread, and a counter in the same database counts within it.

    Every method raises `StateError` with a remedy if the counter cannot be reached.

    Attributes:
        waits: Whether a reservation may wait; the host then calls it on a thread.
    """

    waits: bool

    @property
    def database(self) -> str | None:
        """The file or address of the database; None for memory."""

    def reserve(  # noqa: PLR0913 - each names or bounds a reservation
        self,
        key: str,
        amount: float,
        limit: float,
        window: float | None,
        id: str,  # noqa: A002 - it is the id
        *,
        now: datetime,
    ) -> Reservation:
        """Count an amount in full, unless the sum of the key would exceed the limit.

        Args:
            key: The key, which begins with the policy's name. Take several in sorted order.
            amount: The amount, not below 0; whole numbers are added exactly.
            limit: The maximum of the sum.
            window: Seconds for which the amount counts; None for good.
            id: A unique id over all keys and processes. An id that counts is granted as before.
            now: The time, aware. An amount more than its window ahead of it does not count.
        """

    def settle(self, id: str, amount: float) -> None:  # noqa: A002 - it is the id
        """Replace the amount of a reservation by the amount used; ignores an unknown id."""

    def read(self, key: str, *, now: datetime) -> float:
        """Return the sum of a key."""

    def apart(self, *, anew: bool) -> Counter:
        """Return a counter in memory for dry runs, empty if `anew`, else with the present sums."""


@runtime_checkable
class CountsWithin(Protocol):
    """A `Counter` that counts in the open transaction of a `SessionStore`, in its database.

    Beside a session store, a counter with a `database` must be one, or the host does not open: on
    a separate connection it would wait for the transaction that is open on the same thread.
    """

    @property
    def store(self) -> SessionStore:
        """The store, which says how to write in its transaction, as `SqliteSessions.file`."""


@runtime_checkable
class OffersCounter(Protocol):
    """A `SessionStore` with the counter of its database, which is a `CountsWithin`."""

    def counter(self) -> Counter:
        """Return the counter, the same object each time."""
