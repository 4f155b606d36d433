"""Verdicts of all policies together on one call, now or in a record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from toolstile_hookspecs import PolicyDecision, Status, Verdict
from toolstile_plugins.record.schema import Decision as RecordedDecision

UNJUDGED: Final = "not judged"
"""The verdict on a call that ends before its policies, as one of a tool that is gone does."""
_BEFORE_POLICIES: Final = {Status.UNKNOWN_TOOL, Status.INVALID}
Decision = PolicyDecision | RecordedDecision


def judged(status: Status | None, decisions: Iterable[Decision]) -> tuple[str, Decision | None]:
    """Return the verdict of all policies on a call, and the decision that made it.

    Args:
        status: The status in which the call ended.
        decisions: The decisions, in order; deny wins over ask, and ask over allow.
    """
    decided = tuple(decisions)
    for verdict in (Verdict.DENY, Verdict.ASK):
        for decision in decided:
            if decision.verdict is verdict:
                return verdict.value, decision
    return UNJUDGED if status in _BEFORE_POLICIES else Verdict.ALLOW.value, None
