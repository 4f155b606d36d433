"""The kinds of packages there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "suite": "Tools for agents, with what they remember.",
    "policy": "A policy: what agents may not do.",
    "observer": "An observer of what agents do.",
    "store": "A store for what agents have done once.",
    "approver": "An approver, who answers for a person.",
}
"""What each kind is, by its name; the first is made unless another is asked for."""

DEFAULT_KIND: Final = next(iter(KINDS))
