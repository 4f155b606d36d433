"""Cedar policies over tools, their params, and the users for whom they are called.

Offers the kind `cedar` for `[[policies]]` tables; see `CedarPolicy`.
"""

from __future__ import annotations

from typing import Any

from toolstile_cedar.policy import CedarPolicy
from toolstile_hookspecs import hookimpl

__all__ = ["CedarPolicy", "toolstile_policies"]


@hookimpl
def toolstile_policies() -> dict[str, type[Any]]:
    """Offer the kind of policy."""
    return {"cedar": CedarPolicy}
