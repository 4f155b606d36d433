"""Policies on rates, quotas and budgets, and the amounts and counters behind them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, ClassVar, Final, Literal, cast
from uuid import uuid4

from pydantic_core import from_json

from toolstile_hookspecs import (
    DefinitionError,
    PolicyDecision,
    PolicyState,
    Tool,
    ToolContext,
    ToolSelector,
)
from toolstile_hookspecs.codecs import alternatives, schemas_among
from toolstile_hookspecs.services.counter import Counter, Reservation
from toolstile_hookspecs.support.text import counted, nearest
from toolstile_plugins.policies.checks import Amount, Count, Seconds, SelectingPolicy, entries_for
from toolstile_plugins.policies.path_arguments import schema_of

_DIGITS: Final = 6
LARGEST: Final = 2**61
"""The largest amount, in millionths, that counters can add."""
_PLAIN: Final = re.compile(r"\d{1,30}(?:\.\d{1,30})?", re.ASCII)
_NUMBERS: Final = frozenset({"number", "integer"})


def limit_of(most: float) -> int:
    """Return a limit in millionths, rounded down."""
    return min(int(Decimal(repr(most)).scaleb(_DIGITS).to_integral_value(ROUND_FLOOR)), LARGEST)


def shown(amount: float) -> str:
    """Return an amount of millionths as a number."""
    text = f"{Decimal(int(amount)).scaleb(-_DIGITS):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount_of(tool: Tool[Any, Any], params: Any, argument: str) -> int | None:
    """Return the amount in an argument of a call in millionths, rounded up.

    Returns None for no number, a number below 0, or one beyond `LARGEST`.
    """
    value: Any = params
    if tool.params_schema is None:
        value = from_json(tool.params_codec.encode(params))
    for name in argument.split("."):
        value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    # Amounts of the type `Decimal` are texts in JSON.
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return None
    if not isinstance(value, str) and not 0 <= value <= LARGEST:
        return None
    found = int(Decimal(str(value)).scaleb(_DIGITS).to_integral_value(ROUND_CEILING))
    return found if found <= LARGEST else None


def fault_of(tool: Tool[Any, Any], argument: str) -> str | None:
    """Return why an argument of a tool can never be added up, None if it can."""
    root = schema_of(tool) or {}
    parts = list(alternatives([root], root))
    for name in argument.split("."):
        objects = [part.get("properties", {}) for part in parts]
        known = [each[name] for each in objects if name in each]
        if not known:
            near = nearest(name, [own for each in objects for own in each])
            meant = f" (did you mean {near!r}?)" if near else ""
            return f"adds up {argument!r}, which {tool.name} does not have{meant}"
        parts = list(alternatives(schemas_among(known), root))
    types = [part.get("type", ()) for part in parts]
    if any(not _NUMBERS.isdisjoint([said] if isinstance(said, str) else said) for said in types):
        return None
    return f"adds up {argument!r}, which is not a number for {tool.name}"


CountingScope = Literal["session", "principal", "global"]


def _take_in_record(  # noqa: PLR0913, PLR0917 - as `_Counting._take`
    context: ToolContext, policy: str, key: str, most: int, amount: int, window: float | None
) -> Reservation:
    state = PolicyState.reserved(context, policy)
    now = context.clock.now().timestamp()
    if window is None:
        used, kept, wait = state.data.get(key, 0), state.data.get(key, 0) + amount, None
    else:
        # A call that takes one place is stored as its time alone.
        own: Any = now if amount == 1 else (now, amount)
        places = [each for each in state.data.get(key, ()) if now - window < _time(each) <= now]
        used, kept = sum(map(_amount, places)), (*places, own)
        # The seconds until enough places are free again; None for never.
        over, wait = used + amount - most, None
        for each in places:
            over -= _amount(each)
            if over <= 0:
                wait = _time(each) + window - now
                break
    if used + amount > most:
        return Reservation(granted=False, used=used, wait=wait)
    replace(state, data={**state.data, key: kept}).save(context)
    return Reservation(granted=True, used=used + amount)


def _time(place: Any) -> float:
    return place if isinstance(place, (int, float)) else place[0]


def _amount(place: Any) -> int:
    return 1 if isinstance(place, (int, float)) else place[1]


IN_ALL: Final = "*"
"""The key of all calls in a quota; no tool can have this name."""


@dataclass(frozen=True, kw_only=True)
class _Counting(SelectingPolicy):
    """A policy that only counts: it decides as calls are admitted, so that none slips by.

    Args:
        scope: The calls that share the limit: of one `session`, of one `principal`, or all
            (`global`). Limits beyond a session are counted in the place of `[plugins.sessions]`.
    """

    scope: CountingScope = "session"

    @property
    def wants_params(self) -> bool:
        """False: only calls are counted."""
        return False

    def checks(self, tool: Tool[Any, Any]) -> bool:
        """Check no tool: `reserve` decides."""
        return False

    def hears(self, tool: Tool[Any, Any]) -> bool:
        """Follow no tool: a call was counted when it was admitted."""
        return False

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Leave the decision to `reserve`, where no two calls can count the same place."""
        return PolicyDecision.allow()

    def _take(
        self, context: ToolContext, key: str, most: int, window: float | None, amount: int = 1
    ) -> Reservation:
        """Take a place for one call, in its `reserve`; a denial gives the place back.

        A call takes `amount` of the `most` places of `key`, and each is free again after `window`
        seconds (None: never). Raises `UnboundResourceError` if no counter is bound for a scope
        beyond the session, and `StateError` if nothing can be counted.
        """
        scope = self.scope
        if scope == "session":
            return _take_in_record(context, self.name, key, most, amount, window)
        who = context.principal if scope == "principal" else None
        shared = json.dumps([self.name, scope, None if who is None else [who.source, who.id], key])
        counter: Any = context.resources.get(Counter)  # type: ignore[type-abstract]
        # Because other processes give the same ids to calls, each place gets a new id.
        now, id_ = context.clock.now(), uuid4().hex
        taken: Reservation = counter.reserve(shared, amount, most, window, id_, now=now)
        return taken


@dataclass(frozen=True, kw_only=True)
class RateLimitPolicy(_Counting):
    """Lets each tool be called so many times within a sliding window.

    An admitted call counts, whatever its outcome: failing in a loop is not free.

    Args:
        max_calls_per_minute: Calls of one tool in any 60 seconds; this, or `max_calls`.
        max_calls: Calls of one tool in any `window`.
        window: The length of the window in seconds.

    Raises:
        DefinitionError: Unless exactly one of the two numbers is given, and positive.
    """

    max_calls_per_minute: Count | None = None
    max_calls: Count | None = None
    window: Seconds = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.max_calls is None) == (self.max_calls_per_minute is None):
            msg = "RateLimitPolicy: give either max_calls_per_minute or max_calls with window."
            raise DefinitionError(msg)
        if self.most < 1 or not self.window > 0:
            msg = "RateLimitPolicy: the number of calls and the window must be positive."
            raise DefinitionError(msg)

    @property
    def most(self) -> int:
        """Calls allowed within one window."""
        return self.max_calls if self.max_calls is not None else self.max_calls_per_minute or 0

    @property
    def seconds(self) -> float:
        """The length of the window in seconds."""
        return self.window if self.max_calls is not None else 60.0

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Count the call, or deny it and say how long to wait."""
        most, window = self.most, self.seconds
        place = self._take(context, tool.name, most, window)
        if place.granted:
            return PolicyDecision.allow()
        wait = math.ceil(place.wait or window)
        return PolicyDecision.deny(
            f"Rate limit exceeded: {place.used} calls of {tool.label} in the last "
            f"{counted(window, 'second')}, {most} are allowed. Wait "
            f"{counted(wait, 'second')}, then retry."
        )


@dataclass(frozen=True, kw_only=True)
class QuotaPolicy(_Counting):
    """Lets tools be called so many times, in all and each, or until an argument adds up to so much.

    An admitted call counts, whatever its outcome.

    Args:
        max_calls: Calls in all, None for any number.
        per_tool: Calls of single tools, or of each that matches a glob; of several globs the least.
        sum: The argument that is added up, such as `amount` or `order.total`. A call is denied
            if it is not a number of 0 or more. Millionths are the smallest that count.
        max_sum: The most that it may add up to.
        window: Seconds after which a call counts no more; None for never.
        tools: The tools that count towards `max_calls` and `sum`, also as globs; by default all.

    Raises:
        DefinitionError: When nothing is limited, or a number is negative.
    """

    max_calls: Count | None = None
    per_tool: Mapping[str, Count] = field(default_factory=dict[str, int])
    sum: str | None = None
    max_sum: Amount | None = None
    window: Seconds | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.sum is None) != (self.max_sum is None):
            raise DefinitionError("QuotaPolicy: sum and max_sum belong together; give both.")
        if self.max_calls is None and not self.per_tool and self.sum is None:
            msg = "QuotaPolicy: give max_calls, per_tool or sum with max_sum; it limits nothing."
            raise DefinitionError(msg)
        if min([self.max_calls or 0, *self.per_tool.values()]) < 0:
            raise DefinitionError("QuotaPolicy: a quota cannot be negative.")
        if self.max_sum is not None and not 0 <= self.max_sum * 1e6 <= LARGEST:
            msg = "QuotaPolicy: max_sum must be 0 or more, and below 2,000,000,000,000."
            raise DefinitionError(msg)
        if self.window is not None and not self.window > 0:
            raise DefinitionError("QuotaPolicy: the window must be positive.")

    @property
    def wants_params(self) -> bool:
        """True if an argument is added up."""
        return self.sum is not None

    @property
    def selector(self) -> ToolSelector | None:
        """The tools it counts, None if single tools may be others than the selected ones."""
        return None if self.per_tool else self

    @property
    def governed(self) -> AbstractSet[str]:
        """The names of single tools it limits."""
        return frozenset(self.per_tool)

    def misfits(
        self, tools: Sequence[Tool[Any, Any]], may_come: Callable[[str], bool]
    ) -> list[str]:
        """Return the selected names that no tool has, and tools without an amount."""
        found = self.faults(tools, may_come) if self.per_tool else []
        if self.sum is not None:
            faults = [fault_of(tool, self.sum) for tool in tools if self.selects(tool)]
            if told := "; it ".join(fault for fault in faults if fault is not None):
                found.append(f"{told}. Correct sum, or narrow the tools.")
        return found

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Count the call, or deny it and say how much is used up and left."""
        is_selected = self.selects(tool)
        most_in_all = self.max_calls if is_selected else None
        own = min(entries_for(tool, self.per_tool), default=None)
        wanted = ((IN_ALL, most_in_all, "calls"), (tool.name, own, f"calls of {tool.label}"))
        for key, places, what in wanted:
            if places is not None:
                place = self._take(context, key, places, self.window)
                if not place.granted:
                    # The denial gives back the places that were taken before.
                    return PolicyDecision.deny(
                        f"Quota exceeded: {place.used} of {places} {what} are used. "
                        f"{_remedy(place)}"
                    )
        if self.sum is None or self.max_sum is None or not is_selected:
            return PolicyDecision.allow()
        amount = amount_of(tool, params, self.sum)
        if amount is None:
            return PolicyDecision.deny(
                f"Cannot call {tool.label}: its {self.sum} is added up, so it must be a number "
                f"of 0 or more. Correct it, then retry {tool.label}."
            )
        most = limit_of(self.max_sum)
        place = self._take(context, f"sum of {self.sum}", most, self.window, amount)
        if place.granted:
            return PolicyDecision.allow()
        left = most - int(place.used)
        told = f"{self.sum} is {shown(amount)}, and {shown(max(left, 0))} of {shown(most)} are left"
        return PolicyDecision.deny(
            f"Quota exceeded: {told}. {_remedy(place, tool if left > 0 else None)}"
        )


def _remedy(place: Reservation, smaller: Tool[Any, Any] | None = None) -> str:
    if place.wait is not None:
        return f"Wait {counted(math.ceil(place.wait), 'second')}, then retry."
    if smaller is not None:
        return f"Retry {smaller.name} with no more than that, or continue without it."
    return "It cannot be called again. Continue without it."


@dataclass(frozen=True, kw_only=True)
class BudgetPolicy(SelectingPolicy):
    """Denies tools once too little of the budget is left; without a budget it denies none.

    Args:
        least: The amount that must be left.
        unit: Its unit: `tokens`, `input_tokens`, `output_tokens`, `cost`.

    Raises:
        DefinitionError: When `least` is not positive.
    """

    wants_params: ClassVar = False

    least: Amount
    unit: str = "tokens"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.least > 0:
            raise DefinitionError("BudgetPolicy: least must be more than 0; else it denies none.")

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny if less is left."""
        tracker = context.budget_tracker
        left = None if tracker is None else tracker.remaining(self.unit)
        if left is None or left >= self.least:
            return PolicyDecision.allow()
        return PolicyDecision.deny(
            f"{tool.label} cannot be called with less than {self.least:g} {self.unit} of the "
            f"budget, and {max(left, 0):g} are left. Continue without it."
        )
