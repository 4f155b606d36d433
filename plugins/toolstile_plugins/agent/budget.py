"""Budgets: the limits of a run's tokens, cost and time, and the tracker that counts them."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Final
from uuid import uuid4

from pydantic import NonNegativeFloat

from toolstile_hookspecs import (
    Clock,
    ConfigurationError,
    DefinitionError,
    HostHandle,
    PluginError,
    PromptEvaluationError,
)
from toolstile_hookspecs.agents.messages import Usage
from toolstile_hookspecs.services.counter import Counter

TOKENS: Final = "tokens"
COST: Final = "cost"


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, per million tokens, in the currency of the budget.

    Args:
        input: The price of input.
        output: The price of output, reasoning included.
        cached: The price of input from a cache, None for the price of other input.
        written: The price of input that is written to a cache, None for the price of other input.

    Example:
        >>> Price(2.0, 10.0, cached=0.5).of(Usage(1_000_000, 100_000, cached_tokens=400_000))
        2.4
    """

    input: NonNegativeFloat
    output: NonNegativeFloat
    cached: NonNegativeFloat | None = None
    written: NonNegativeFloat | None = None

    def of(self, usage: Usage) -> float:
        """Return the cost of tokens."""
        read, made = usage.cached_tokens, usage.cache_written_tokens
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        paid = (usage.input_tokens - read - made) * self.input + read * cached + made * written
        return (paid + usage.output_tokens * self.output) / 1_000_000


class BudgetExceeded(PromptEvaluationError):
    """More was used than a budget allows.

    Args:
        dimension: The unit of the limit, such as `input_tokens`.
        limit: The limit.
        used: The amount that was used.
    """

    def __init__(self, dimension: str, limit: float, used: float) -> None:
        super().__init__(f"The budget of {limit:g} {dimension} is used up: {used:g} were used.")
        self.dimension = dimension
        self.limit = limit
        self.used = used

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[object, ...]]:
        return type(self), (self.dimension, self.limit, self.used)


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a run; a use of exactly the limit does not exceed it.

    Args:
        deadline: Seconds from the beginning of a run.
        max_total_tokens: Input and output together.
        max_input_tokens: Input, with tokens from a cache.
        max_output_tokens: Output, with reasoning.
        max_cost: The cost, by the prices in the configuration.
        count_cached: Whether tokens from a cache count as input, and in the total.
        key: Under this key the use counts in a `Counter`, with the use of other runs and
            processes; without a key each run has the whole budget.
        window: Seconds after which use under the key stops counting, None for never.

    Raises:
        DefinitionError: When nothing is limited, or a limit is not positive.
    """

    deadline: float | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None
    count_cached: bool = True
    key: str | None = None
    window: float | None = None

    def __post_init__(self) -> None:
        if self.window is not None and self.key is None:
            raise DefinitionError("Budget: a window needs a key, under which use counts.")
        given = {each.name: getattr(self, each.name) for each in fields(self)[:5]}
        limits = {name: value for name, value in given.items() if value is not None}
        if not limits:
            raise DefinitionError(f"Budget limits nothing; give one of {', '.join(given)}.")
        numbers = {k: value for k, value in limits.items() if isinstance(value, int | float)}
        if wrong := [name for name in limits if not numbers.get(name, 0) > 0]:
            raise DefinitionError(f"Budget: {', '.join(wrong)} must be more than 0, as a number.")


class TokenBudgetTracker:
    """Counts the use of a budget; safe across threads, and a `BudgetTracker`.

    The usage of a run is a sum and replaces the earlier sum of the run. A handler that asks a
    model counts its own use with `spend`.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._runs: dict[str, Usage] = {}
        self._spent: dict[str, float] = {}
        self._lock = threading.Lock()
        self._counter: tuple[Counter, Clock] | None = None
        limits = {
            "input_tokens": budget.max_input_tokens,
            "output_tokens": budget.max_output_tokens,
            TOKENS: budget.max_total_tokens,
            COST: budget.max_cost,
        }
        self._limits = {name: limit for name, limit in limits.items() if limit is not None}

    def count_in(self, counter: Counter, clock: Clock) -> None:
        """Count in a counter from now on, together with all use under the budget's key."""
        self._counter = counter, clock

    def record(self, run_id: str, usage: Usage) -> None:
        """Set the use of a run so far."""
        with self._lock:
            self._runs[run_id] = usage
        for name, amount in self._amounts(usage).items():
            self._share(name, amount, f"{run_id}:{name}")

    def spend(self, amount: float, unit: str = TOKENS) -> None:
        """Count the use of a handler; raise `BudgetExceeded` if that is too much."""
        with self._lock:
            self._spent[unit] = self._spent.get(unit, 0.0) + amount
        self._share(unit, amount, uuid4().hex)
        self.check()

    @property
    def consumed(self) -> Usage:
        """The tokens of all runs, without the use of handlers."""
        with self._lock:
            return sum(self._runs.values(), Usage())

    def remaining(self, unit: str = TOKENS) -> float | None:
        """Return the rest of a unit, such as `input_tokens`; None for a unit without a limit."""
        limit = self._limits.get(unit)
        return None if limit is None else limit - self._used(unit)

    def check(self) -> None:
        """Raise `BudgetExceeded` if more was used than the budget allows."""
        for name, limit in self._limits.items():
            if (used := self._used(name)) > limit:
                raise BudgetExceeded(name, limit, used)

    def _used(self, name: str) -> float:
        if self._counter is not None:
            counter, clock = self._counter
            return counter.read(f"{self.budget.key}:{name}", now=clock.now())
        with self._lock:
            runs = [self._amounts(usage)[name] for usage in self._runs.values()]
            return sum(runs) + self._spent.get(name, 0.0)

    def _amounts(self, usage: Usage) -> dict[str, float]:
        return amounts_of(usage, 0 if self.budget.count_cached else usage.cached_tokens)

    def _share(self, name: str, amount: float, id_: str) -> None:
        """Count an amount, in place of the earlier amount of its id."""
        if self._counter is None or name not in self._limits:
            return
        (counter, clock), window = self._counter, self.budget.window
        key, now = f"{self.budget.key}:{name}", clock.now()
        counter.reserve(key, amount, math.inf, window, id_, now=now)
        counter.settle(id_, amount)


def amounts_of(usage: Usage, free: int = 0) -> dict[str, float]:
    """Return a usage by unit, without the input tokens that are free."""
    return {
        "input_tokens": usage.input_tokens - free,
        "output_tokens": usage.output_tokens,
        TOKENS: usage.total_tokens - free,
        COST: usage.cost or 0.0,
    }


def price_of(
    model: str, prices: Mapping[str, Price] | None, host: HostHandle | None, *, needed: bool
) -> Price | None:
    """Return the price of a model, from the host's configuration if no prices are given."""
    if prices is None and host is not None:
        with suppress(PluginError):  # the host may go without the plugin
            prices = host.settings("agent").prices
    if (price := (prices or {}).get(model)) is None and needed:
        raise ConfigurationError(
            f"The budget limits the cost, and the price of {model} is missing; add it: "
            f'[plugins.agent.prices."{model}"] with input and output, per million tokens.'
        )
    return price
