"""Amounts that calls take: in the record of their session, or in a counter of several sessions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal
from uuid import uuid4

from toolstile_hookspecs import PolicyState, ToolContext
from toolstile_hookspecs.services.counter import Counter, Reservation

CountingScope = Literal["session", "principal", "global"]


def take_place(  # noqa: PLR0913 - what is counted, for whom and how long
    context: ToolContext,
    policy: str,
    key: str,
    most: int,
    *,
    amount: int = 1,
    window: float | None = None,
    scope: CountingScope,
) -> Reservation:
    """Take a place for one call, in its `reserve`; what it takes is put back with a denial.

    Args:
        context: The call's.
        policy: The policy's name.
        key: What is counted.
        most: The places there are.
        amount: The places it takes.
        window: Seconds after which a place is free again; None for never.
        scope: Whose calls share the places.

    Raises:
        UnboundResourceError: When no counter is bound for a scope beyond the session.
        StateError: When nothing can be counted.
    """
    if scope == "session":
        return _take_in_record(context, policy, key, most, amount, window)
    who = context.principal if scope == "principal" else None
    shared = json.dumps([policy, scope, None if who is None else [who.source, who.id], key])
    counter: Any = context.resources.get(Counter)  # type: ignore[type-abstract]
    # No id of a call's: other processes give the same ones, and a call is admitted once.
    now, id_ = context.clock.now(), uuid4().hex
    taken: Reservation = counter.reserve(shared, amount, most, window, id_, now=now)
    return taken


def _take_in_record(  # noqa: PLR0913, PLR0917 - as `take_place`
    context: ToolContext, policy: str, key: str, most: int, amount: int, window: float | None
) -> Reservation:
    state = PolicyState.reserved(context, policy)
    now = context.clock.now().timestamp()
    if window is None:
        used, kept, wait = state.data.get(key, 0), state.data.get(key, 0) + amount, None
    else:
        # The time of a call that takes one place stands alone.
        own: Any = now if amount == 1 else (now, amount)
        places = [each for each in state.data.get(key, ()) if now - window < _time(each) <= now]
        used, kept = sum(map(_amount, places)), (*places, own)
        wait = _wait(places, used + amount - most, window - now)
    if used + amount > most:
        return Reservation(granted=False, used=used, wait=wait)
    replace(state, data={**state.data, key: kept}).save(context)
    return Reservation(granted=True, used=used + amount)


def _time(place: Any) -> float:
    return place if isinstance(place, (int, float)) else place[0]


def _amount(place: Any) -> int:
    return 1 if isinstance(place, (int, float)) else place[1]


def _wait(places: list[Any], over: int, ahead: float) -> float | None:
    """Return the seconds until enough of the places are free again; None if that never is."""
    for place in places:
        over -= _amount(place)
        if over <= 0:
            return _time(place) + ahead
    return None
