"""The policy on what is left of an agent's budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from toolstile_hookspecs import DefinitionError, PolicyDecision, Tool, ToolContext
from toolstile_plugins.policies.checks import Amount
from toolstile_plugins.policies.selecting_policy import SelectingPolicy


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
        """Check the amount."""
        super().__post_init__()
        if not self.least > 0:
            raise DefinitionError("BudgetPolicy: least must be more than 0; else it denies none.")

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny where less is left."""
        tracker = context.budget_tracker
        left = None if tracker is None else tracker.remaining(self.unit)
        if left is None or left >= self.least:
            return PolicyDecision.allow()
        return PolicyDecision.deny(
            f"{tool.label} cannot be called with less than {self.least:g} {self.unit} of the "
            f"budget, and {max(left, 0):g} are left. Go on without it."
        )
