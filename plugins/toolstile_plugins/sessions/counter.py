"""Counters: all reserve in the same way, in memory or in a database."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.counter import Counter, Reservation

_MANY: Final = 1000
"""The number of reservations above which the expired ones of all keys are removed."""


class Held(NamedTuple):
    """A reservation: its amount, and the times between which it counts."""

    id: str
    key: str
    amount: float
    at: float
    until: float

    def counts(self, now: float) -> bool:
        """Tell whether it counts: not if a clock was set back by more than a window."""
        return now < self.until and self.at - (self.until - self.at) <= now


class BaseCounter(ABC):
    """A `Counter` for each place of reservations."""

    def reserve(  # noqa: PLR0913 - the protocol's
        self,
        key: str,
        amount: float,
        limit: float,
        window: float | None,
        id: str,  # noqa: A002 - it is the id
        *,
        now: datetime,
    ) -> Reservation:
        """Let an amount count in full, unless the sum under its key would exceed the limit."""
        check_amount(amount)
        at = now.timestamp()
        held = Held(id, key, amount, at, math.inf if window is None else at + window)
        with self._alone(key) as place:
            used = self.read(key, now=now)
            if used + amount <= limit:
                is_new = self._keep(place, held)
                total = used + amount if is_new else used
                return Reservation(granted=True, used=total, is_new=is_new)
            if self._has(place, id, at):
                return Reservation(granted=True, used=used, is_new=False)
            others = self._counting(place, key, at)
        wait = wait_of(used + amount - limit, others, at)
        return Reservation(granted=False, used=used, wait=wait)

    def apart(self, *, anew: bool) -> MemoryCounter:
        """Return a counter in memory for dry runs, which starts from these amounts or from zero."""
        # Only subclasses are made, and each of them is a `Counter`.
        return MemoryCounter(None if anew else self)  # type: ignore[arg-type]

    @abstractmethod
    def read(self, key: str, *, now: datetime) -> float:
        """Return the sum of the reservations of a key."""

    @abstractmethod
    def _alone(self, key: str) -> AbstractContextManager[Any]:
        """Keep others from reserving under a key; the block gets the open place."""

    @abstractmethod
    def _keep(self, place: Any, held: Held) -> bool:
        """Keep a reservation, and remove expired ones; return False if its id still counts."""

    @abstractmethod
    def _has(self, place: Any, id_: str, at: float) -> bool:
        """Return whether a reservation still counts."""

    @abstractmethod
    def _counting(self, place: Any, key: str, at: float) -> list[tuple[float, float]]:
        """Return the amounts that count under a key, each with its expiry."""


class MemoryCounter(BaseCounter):
    """A `Counter` in memory; sums include those in `over`, which stays unchanged."""

    database = None

    def __init__(self, over: Counter | None = None) -> None:
        self._over = over
        self.waits = over is not None and over.waits
        self._lock = threading.RLock()
        self._held: dict[str, dict[str, Held]] = {}
        self._keys: dict[str, str] = {}
        self._many = _MANY

    def settle(self, id: str, amount: float) -> None:  # noqa: A002 - it is the id
        """Set the final amount of a reservation, 0 to release it; an unknown id has expired."""
        check_amount(amount)
        with self._lock:
            key = self._keys.get(id)
            if key is None:
                return
            if amount:
                self._held[key][id] = self._held[key][id]._replace(amount=amount)
            else:
                del self._held[key][id], self._keys[id]

    def read(self, key: str, *, now: datetime) -> float:
        """Return the sum of the reservations of a key."""
        with self._lock:
            own = sum(amount for amount, _ in self._counting(None, key, now.timestamp()))
            return own if self._over is None else self._over.read(key, now=now) + own

    def _alone(self, key: str) -> AbstractContextManager[Any]:  # noqa: ARG002 - one lock for all
        return self._lock

    def _keep(self, place: Any, held: Held) -> bool:  # noqa: ARG002 - in memory
        # First, the expired ones are removed: of the key, or of all keys if there are many.
        has_many = len(self._keys) > self._many
        for key in [*self._held] if has_many else {held.key, self._keys.get(held.id, held.key)}:
            there = self._held.get(key, {})
            for id_ in [id_ for id_, each in there.items() if each.until <= held.at]:
                del there[id_], self._keys[id_]
            if not there:
                self._held.pop(key, None)
        if has_many:
            self._many = 2 * len(self._keys) + _MANY
        if held.id in self._keys:
            return False
        self._held.setdefault(held.key, {})[held.id] = held
        self._keys[held.id] = held.key
        return True

    def _has(self, place: Any, id_: str, at: float) -> bool:  # noqa: ARG002 - in memory
        key = self._keys.get(id_)
        return key is not None and self._held[key][id_].until > at

    def _counting(self, place: Any, key: str, at: float) -> list[tuple[float, float]]:  # noqa: ARG002 - in memory
        found = self._held.get(key, {}).values()
        return [(each.amount, each.until) for each in found if each.counts(at)]


def check_amount(amount: float) -> None:
    """Raise `StateError` if an amount would free the reservations of others."""
    if not 0 <= amount < 2**62:
        raise StateError(
            f"{amount} cannot be counted. Count an amount that is not below 0, and below 2**62."
        )


def wait_of(over: float, held: list[tuple[float, float]], now: float) -> float | None:
    """Return the seconds until enough reservations have expired; None if they never do.

    `over` is the amount above the limit; `held` are the counted amounts, each with its expiry.
    """
    for amount, until in sorted(held, key=lambda each: each[1]):
        over -= amount
        if over <= 0 and until < math.inf:
            return until - now
    return None
