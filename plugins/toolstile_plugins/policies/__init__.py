"""Policies that can be declared in `toolstile.toml` without code, as `[[policies]]` tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolstile_hookspecs import hookimpl
from toolstile_hookspecs.support.late_names import late_names

if TYPE_CHECKING:
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

__getattr__ = late_names(
    __name__,
    {
        "categories": "CategoryPolicy",
        "dependencies": "SequentialDependencyPolicy",
        "limits": "BudgetPolicy QuotaPolicy RateLimitPolicy",
        "read_before_write": "ReadBeforeWritePolicy",
    },
)


@hookimpl
def toolstile_policies() -> dict[str, str]:
    return {
        "budget": f"{__name__}.limits:BudgetPolicy",
        "category": f"{__name__}.categories:CategoryPolicy",
        "quota": f"{__name__}.limits:QuotaPolicy",
        "rate_limit": f"{__name__}.limits:RateLimitPolicy",
        "read_before_write": f"{__name__}.read_before_write:ReadBeforeWritePolicy",
        "sequential_dependency": f"{__name__}.dependencies:SequentialDependencyPolicy",
    }
