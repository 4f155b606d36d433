"""The metrics of calls, in a registry of their own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from toolstile_hookspecs import APPROVAL, REPLAYED_EFFECT, Status, ToolInvoked, Verdict, hookimpl
from toolstile_prometheus.settings import BUCKETS

UNKNOWN: Final = "(unknown)"
"""Stands for all names that no tool has: a model may make up any number of them."""
OTHERS: Final = "(others)"
"""Stands for all tools beyond as many as have labels of their own."""
APPROVER: Final = "(approver)"
"""Stands in a policy's place where a person, or an approver in a person's place, has denied."""
HOST: Final = "(host)"
"""Stands in a policy's place where nobody says who has denied."""


class Metrics:
    """A plugin that counts calls.

    A label holds the name of a tool, policy or status, and nothing that a model has written.

    Args:
        buckets: The upper bounds of the durations' buckets, in seconds.
        max_tools: The most tools that have labels of their own.

    Attributes:
        registry: What holds the metrics.
    """

    def __init__(self, *, buckets: Sequence[float] = BUCKETS, max_tools: int = 500) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._max_tools = max_tools
        self._tools: set[str] = set()
        self._lock = threading.Lock()
        self._calls = Counter(
            "toolstile_calls",
            "Calls that have ended, by what became of them.",
            ["tool", "status"],
            registry=self.registry,
        )
        self._duration = Histogram(
            "toolstile_call_duration_seconds",
            "How long calls took, from lookup to the end.",
            ["tool"],
            buckets=buckets,
            registry=self.registry,
        )
        self._denials = Counter(
            "toolstile_denials",
            "Denials, by who has denied.",
            ["tool", "policy"],
            registry=self.registry,
        )
        self._rollbacks = Counter(
            "toolstile_rollbacks",
            "Calls whose changes were put back, by what became of them.",
            ["tool", "status"],
            registry=self.registry,
        )
        self._hits = Counter(
            "toolstile_ledger_hits",
            "Calls that were answered with the result of an earlier one, from the ledger.",
            ["tool"],
            registry=self.registry,
        )

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Count a call."""
        tool, status = self._label(event), str(event.status)
        self._calls.labels(tool, status).inc()
        self._duration.labels(tool).observe(event.duration)
        if event.status is Status.DENIED:
            for policy in _deniers(event):
                self._denials.labels(tool, policy).inc()
        if event.rolled_back:
            self._rollbacks.labels(tool, status).inc()
        if REPLAYED_EFFECT in event.attributes:
            self._hits.labels(tool).inc()

    def _label(self, event: ToolInvoked) -> str:
        if event.tool is None:
            return UNKNOWN
        name = event.tool.name
        with self._lock:
            if name not in self._tools and len(self._tools) >= self._max_tools:
                return OTHERS
            self._tools.add(name)
        return name


def _deniers(event: ToolInvoked) -> set[str]:
    named = {each.policy or HOST for each in event.decisions if each.verdict is Verdict.DENY}
    if named:
        return named
    return {APPROVER if APPROVAL in event.attributes else HOST}
