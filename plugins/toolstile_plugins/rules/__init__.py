"""Rules of the configuration that look at what a call says: kinds of `[[policies]]` tables.

What evaluates their expressions comes with the extra `rules`, and is imported by the first rule.
"""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import hookimpl
from toolstile_plugins.rules.asked_for import AskedForPolicy
from toolstile_plugins.rules.provenance import ProvenancePolicy
from toolstile_plugins.rules.rule import RulePolicy

__all__ = ["AskedForPolicy", "ProvenancePolicy", "RulePolicy"]


@hookimpl
def toolstile_policies() -> dict[str, type[Any]]:
    """Offer the kinds."""
    return {"asked_for": AskedForPolicy, "provenance": ProvenancePolicy, "rule": RulePolicy}
