"""Places that calls take: in the record of their session, or in a counter of several sessions."""

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
    window: float | None = None,
    scope: CountingScope,
) -> Reservation:
    """Take a place for one call, in its `reserve`; what it takes is put back with a denial.

    Args:
        context: The call's.
        policy: The policy's name.
        key: What is counted.
        most: The places there are.
        window: Seconds after which a place is free again; None for never.
        scope: Whose calls share the places.

    Raises:
        UnboundResourceError: When no counter is bound for a scope beyond the session.
        StateError: When nothing can be counted.
    """
    if scope == "session":
        return _take_in_record(context, policy, key, most, window)
    who = context.principal if scope == "principal" else None
    shared = json.dumps([policy, scope, None if who is None else [who.source, who.id], key])
    counter: Any = context.resources.get(Counter)  # type: ignore[type-abstract]
    # No id of a call's: other processes give the same ones, and a call is admitted once.
    now, id_ = context.clock.now(), uuid4().hex
    taken: Reservation = counter.reserve(shared, 1, most, window, id_, now=now)
    return taken


def _take_in_record(
    context: ToolContext, policy: str, key: str, most: int, window: float | None
) -> Reservation:
    state = PolicyState.reserved(context, policy)
    if window is None:
        used = state.data.get(key, 0)
        if used >= most:
            return Reservation(granted=False, used=used)
        replace(state, data={**state.data, key: used + 1}).save(context)
        return Reservation(granted=True, used=used + 1)
    now = context.clock.now().timestamp()
    times = [time for time in state.data.get(key, ()) if now - window < time <= now]
    used = len(times)
    if used >= most:
        return Reservation(granted=False, used=used, wait=times[used - most] + window - now)
    replace(state, data={**state.data, key: (*times, now)}).save(context)
    return Reservation(granted=True, used=used + 1)
