"""Budgets: what a run may use, and the tracker that counts it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from typing import Final

from toolstile_hookspecs import DefinitionError, PromptEvaluationError
from toolstile_hookspecs.agents.messages import Usage

TOKENS: Final = "tokens"
COST: Final = "cost"


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, per million tokens, in the currency of the budget.

    Args:
        input: The price of input.
        output: The price of output, reasoning included.
        cached: The price of input from a cache, None for that of other input.

    Example:
        >>> Price(2.0, 10.0, cached=0.5).of(Usage(1_000_000, 100_000, cached_tokens=400_000))
        2.4
    """

    input: float
    output: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """Return what tokens cost."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        paid = fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        return paid / 1_000_000


class BudgetExceeded(PromptEvaluationError):
    """More was used than a budget allows.

    Args:
        dimension: What is used up, such as `input_tokens`.
        limit: How much there was.
        used: How much was used.
    """

    def __init__(self, dimension: str, limit: float, used: float) -> None:
        super().__init__(f"The budget of {limit:g} {dimension} is used up: {used:g} were used.")
        self.dimension = dimension
        self.limit = limit
        self.used = used

    def __reduce__(self) -> tuple[type[BudgetExceeded], tuple[object, ...]]:
        """Return the arguments that make it again."""
        return type(self), (self.dimension, self.limit, self.used)


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of what a run may use; exactly at a limit is not exceeded.

    Args:
        deadline: Seconds from the beginning of a run.
        max_total_tokens: Input and output together.
        max_input_tokens: Input, with those from a cache.
        max_output_tokens: Output, with reasoning.
        max_cost: The cost, by the prices in the configuration.
        count_cached: Whether tokens from a cache count as input, and in the total.

    Raises:
        DefinitionError: When nothing is limited, or a limit is not positive.
    """

    deadline: float | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost: float | None = None
    count_cached: bool = True

    def __post_init__(self) -> None:
        """Check the limits."""
        given = {each.name: getattr(self, each.name) for each in fields(self)[:-1]}
        limits = {name: value for name, value in given.items() if value is not None}
        if not limits:
            raise DefinitionError(f"Budget limits nothing; give one of {', '.join(given)}.")
        if wrong := [name for name, value in limits.items() if not value > 0]:
            raise DefinitionError(f"Budget: {', '.join(wrong)} must be more than 0.")


class TokenBudgetTracker:
    """Counts what is used of a budget; safe across threads, and a `BudgetTracker`.

    The usage of a run is given as a sum and replaces what was known of it. Handlers that ask a
    model themselves add to it with `spend`.

    Args:
        budget: The budget.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._runs: dict[str, tuple[Usage, Price | None]] = {}
        self._spent: dict[str, float] = {}
        self._lock = threading.Lock()

    def record(self, run_id: str, usage: Usage, price: Price | None = None) -> None:
        """Note what a run has used so far, and the price of its model."""
        with self._lock:
            self._runs[run_id] = usage, price

    def spend(self, amount: float, unit: str = TOKENS) -> None:
        """Count what a handler has used.

        Raises:
            BudgetExceeded: When it is more than the budget allows.
        """
        with self._lock:
            self._spent[unit] = self._spent.get(unit, 0.0) + amount
        self.check()

    @property
    def consumed(self) -> Usage:
        """The tokens of all runs, without what handlers have spent."""
        with self._lock:
            return sum((usage for usage, _ in self._runs.values()), Usage())

    @property
    def cost(self) -> float:
        """The cost of the runs that have a price, without what handlers have spent."""
        with self._lock:
            return sum(price.of(usage) for usage, price in self._runs.values() if price)

    def remaining(self, unit: str = TOKENS) -> float | None:
        """Return what is left of the unit, such as `input_tokens`; None where nothing limits it."""
        for dimension, limit, used in self._dimensions():
            if dimension == unit:
                return limit - used
        return None

    def check(self) -> None:
        """Raise `BudgetExceeded` where more was used than the budget allows."""
        for dimension, limit, used in self._dimensions():
            if used > limit:
                raise BudgetExceeded(dimension, limit, used)

    def _dimensions(self) -> list[tuple[str, float, float]]:
        budget, used, spent = self.budget, self.consumed, self._spent
        free = 0 if budget.count_cached else used.cached_tokens
        rows: list[tuple[str, float | None, float]] = [
            ("input_tokens", budget.max_input_tokens, used.input_tokens - free),
            ("output_tokens", budget.max_output_tokens, used.output_tokens),
            (TOKENS, budget.max_total_tokens, used.total_tokens - free),
            (COST, budget.max_cost, self.cost),
        ]
        return [
            (name, limit, amount + spent.get(name, 0.0))
            for name, limit, amount in rows
            if limit is not None
        ]
