"""The resources of a policy's `reserve`, which record its reservations at a counter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolstile.resources.bindings import ResourceRegistry
from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.services.counter import Counter, Reservation
from toolstile_hookspecs.support.process import deferred_interrupts

log = logging.getLogger("toolstile.policies")


class ReservingResources:
    """Resources that return a counter's reservations if the block fails."""

    def __init__(self, resources: ResourceResolver) -> None:
        self._resources = resources
        self.taken: list[tuple[Counter, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._resources, name)

    def __contains__(self, kind: type[object]) -> bool:
        return kind in self._resources

    def get(self, kind: type[Any], *default: Any, **named: Any) -> Any:
        found: Any = self._resources.get(kind, *default, **named)
        wanted: Any = Counter
        return _Noting(found, self) if kind is wanted and found is not None else found

    def __enter__(self) -> None:
        """Begin a block that may take something."""

    def __exit__(self, raised: object, *_: object) -> None:
        """Return the reservations if the block failed; else they count until they expire."""
        if raised is not None:
            self.give_back()

    @deferred_interrupts()
    def give_back(self) -> None:
        """Return all reservations; a failed return is logged, and the reservation counts on."""
        while self.taken:
            counter, id_ = self.taken.pop()
            try:
                counter.settle(id_, 0)
            except Exception:
                log.exception("A reservation could not be given back.")


class _Noting:
    """A counter whose new reservations are noted."""

    def __init__(self, counter: Counter, resources: ReservingResources) -> None:
        self._counter = counter
        self._resources = resources

    def __getattr__(self, name: str) -> Any:
        return getattr(self._counter, name)

    @deferred_interrupts()  # an interruption would lose a reservation before its record
    def reserve(self, *asked: Any, **named: Any) -> Reservation:
        answer = self._counter.reserve(*asked, **named)
        if answer.granted and answer.is_new:
            self._resources.taken.append((self._counter, named.get("id") or asked[4]))
        return answer


def counting_apart(registry: ResourceRegistry, *, anew: bool) -> ResourceRegistry:
    """Return the bindings with a recording counter over the bound one."""
    wanted: Any = Counter
    bound = registry.bindings.get(wanted)
    if bound is None:
        return registry
    provider: Callable[[Any], Counter] = bound.provider

    def apart(resources: ResourceResolver) -> Counter:
        return provider(resources).apart(anew=anew)

    return registry.merge(ResourceRegistry.of(replace(bound, provider=apart)))
