"""Counters of the calls of many sessions, in memory."""

from __future__ import annotations

import math
import threading
from datetime import datetime
from typing import Final, NamedTuple

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.counter import Counter, Reservation

_MANY: Final = 1000
"""The number of reservations above which the expired ones of all keys are removed."""


class Held(NamedTuple):
    """A reservation: its amount, and the times between which it counts."""

    amount: float
    at: float
    until: float

    def counts(self, now: float) -> bool:
        """Tell whether it counts: not if a clock was set back by more than a window."""
        return now < self.until and self.at - (self.until - self.at) <= now


class MemoryCounter:
    """A `Counter` in memory.

    Args:
        over: A counter whose sums are included; it stays unchanged.
    """

    database = None

    def __init__(self, over: Counter | None = None) -> None:
        self._over = over
        self.waits = over is not None and over.waits
        self._lock = threading.Lock()
        self._held: dict[str, dict[str, Held]] = {}
        self._keys: dict[str, str] = {}
        self._many = _MANY

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
        moment = now.timestamp()
        until = math.inf if window is None else moment + window
        with self._lock:
            self._remove_expired(key, self._keys.get(id, key), moment)
            held = self._counting(key, moment)
            used = self._below(key, now) + sum(each.amount for each in held)
            if id in self._keys:
                return Reservation(granted=True, used=used, is_new=False)
            if used + amount <= limit:
                self._held.setdefault(key, {})[id] = Held(amount, moment, until)
                self._keys[id] = key
                return Reservation(granted=True, used=used + amount)
        wait = wait_of(used + amount - limit, [(each.amount, each.until) for each in held], moment)
        return Reservation(granted=False, used=used, wait=wait)

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
            own = sum(each.amount for each in self._counting(key, now.timestamp()))
            return self._below(key, now) + own

    def apart(self, *, anew: bool) -> MemoryCounter:
        """Return a counter in memory for dry runs, which starts from these amounts or from zero."""
        return MemoryCounter(None if anew else self)

    def _below(self, key: str, now: datetime) -> float:
        return 0 if self._over is None else self._over.read(key, now=now)

    def _counting(self, key: str, now: float) -> list[Held]:
        return [each for each in self._held.get(key, {}).values() if each.counts(now)]

    def _remove_expired(self, key: str, key_of_id: str, now: float) -> None:
        has_many = len(self._keys) > self._many
        for each in [*self._held] if has_many else {key, key_of_id}:
            held = self._held.get(each, {})
            for id_ in [id_ for id_, reservation in held.items() if reservation.until <= now]:
                del held[id_], self._keys[id_]
            if not held:
                self._held.pop(each, None)
        if has_many:
            self._many = 2 * len(self._keys) + _MANY


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
