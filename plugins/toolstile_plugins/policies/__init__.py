"""Policies that can be declared in `toolstile.toml` without code, as `[[policies]]` tables."""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import hookimpl
from toolstile_plugins.policies.categories import CategoryPolicy
from toolstile_plugins.policies.dependencies import SequentialDependencyPolicy
from toolstile_plugins.policies.limits import BudgetPolicy, QuotaPolicy, RateLimitPolicy
from toolstile_plugins.policies.read_before_write import ReadBeforeWritePolicy

__all__ = [
    "BudgetPolicy",
    "CategoryPolicy",
    "QuotaPolicy",
    "RateLimitPolicy",
    "ReadBeforeWritePolicy",
    "SequentialDependencyPolicy",
]


@hookimpl
def toolstile_policies() -> dict[str, type[Any]]:
    """Offer the kinds."""
    return {
        "budget": BudgetPolicy,
        "category": CategoryPolicy,
        "quota": QuotaPolicy,
        "rate_limit": RateLimitPolicy,
        "read_before_write": ReadBeforeWritePolicy,
        "sequential_dependency": SequentialDependencyPolicy,
    }
