"""Policies that can be declared in `toolyard.toml` without code, as `[[policies]]` tables."""

from __future__ import annotations

from typing import Any

from toolyard_hookspecs import hookimpl
from toolyard_plugins.policies.categories import CategoryPolicy
from toolyard_plugins.policies.files import ReadBeforeWritePolicy
from toolyard_plugins.policies.limits import QuotaPolicy, RateLimitPolicy
from toolyard_plugins.policies.order import SequentialDependencyPolicy

__all__ = [
    "CategoryPolicy",
    "QuotaPolicy",
    "RateLimitPolicy",
    "ReadBeforeWritePolicy",
    "SequentialDependencyPolicy",
]


@hookimpl
def toolyard_policies() -> dict[str, type[Any]]:
    """Offer the kinds."""
    return {
        "category": CategoryPolicy,
        "quota": QuotaPolicy,
        "rate_limit": RateLimitPolicy,
        "read_before_write": ReadBeforeWritePolicy,
        "sequential_dependency": SequentialDependencyPolicy,
    }
