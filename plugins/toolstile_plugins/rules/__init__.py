"""Rules of the configuration that look at what a call says: kinds of `[[policies]]` tables.

What evaluates their expressions comes with the extra `rules`, and is imported by the first rule.
"""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import hookimpl
from toolstile_plugins.rules.rule import RulePolicy

__all__ = ["RulePolicy"]


@hookimpl
def toolstile_policies() -> dict[str, type[Any]]:
    """Offer the kinds."""
    return {"rule": RulePolicy}
