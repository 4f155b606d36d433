"""Budgets: what a run may use, and the tracker that counts it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields
from typing import Final

from toolstile_hookspecs import DefinitionError, PromptEvaluationError
from toolstile_hookspecs.agents.messages import Usage

TOKENS: Final = "tokens"


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

    Raises:
        DefinitionError: When nothing is limited, or a limit is not positive.
    """

    deadline: float | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the limits."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
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
        self._runs: dict[str, Usage] = {}
        self._spent: dict[str, float] = {}
        self._lock = threading.Lock()

    def record(self, run_id: str, usage: Usage) -> None:
        """Note what a run has used so far."""
        with self._lock:
            self._runs[run_id] = usage

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
            return sum(self._runs.values(), Usage())

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
        used, spent = self.consumed, self._spent
        rows = [
            ("input_tokens", self.budget.max_input_tokens, used.input_tokens),
            ("output_tokens", self.budget.max_output_tokens, used.output_tokens),
            (TOKENS, self.budget.max_total_tokens, used.total_tokens),
        ]
        return [
            (name, limit, tokens + spent.get(name, 0.0))
            for name, limit, tokens in rows
            if limit is not None
        ]
