"""The metrics of calls, in a registry, and their way to Prometheus."""

from __future__ import annotations

import asyncio
import os
from collections import Counter as Tally, defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from toolstile_hookspecs import (
    APPROVAL,
    ConfigurationError,
    HostHandle,
    Status,
    ToolInvoked,
    TransactionEnded,
    TransactionStatus,
    Verdict,
    hookimpl,
)
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.services.approval_store import ApprovalStore, QuestionState

# A model may make up any number of names.
UNKNOWN: Final = "(unknown)"
OTHERS: Final = "(others)"
APPROVER: Final = "(approver)"
HOST: Final = "(host)"
BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)

COUNTERS: Final = {
    "calls": ("Calls that have ended, nested calls too.", ("tool", "status")),
    "denials": ("Denials; a call that several policies deny counts for each.", ("tool", "policy")),
    "rollbacks": ("Calls that were rolled back, also at the end of a transaction.", ("tool",)),
    "reruns": ("Retries of calls by the host, such as after a conflict.", ("tool",)),
    "agent_calls": ("Calls of child agents.", ("tool", "agent")),
    "ledger_calls": (
        "Calls of tools with `idempotency`, by their state.",
        ("tool", "state"),
    ),
    "transactions": ("Transactions of several calls that have ended.", ("status",)),
}
"""The text and the labels of each counter, by its name without `toolstile_` and `_total`."""
DURATION: Final = ("call_duration_seconds", "Seconds of a call, with waiting for people.")
WAITING: Final = ("approvals_waiting", "Questions of the inbox that wait for a person now.")
LABELS: Final = {
    "tool": "A tool; `(unknown)` for names that no tool has, `(others)` from the 501st tool on.",
    "status": "The status of a call, such as `succeeded`, or of a transaction.",
    "policy": "The policy that denied; `(approver)` for a person, `(host)` for the host itself.",
    "agent": "The path of the child agent, such as `main/reader`.",
    "state": "`recorded`, `hit`, `released`, `unknown`, `in_progress` and other states.",
}
"""The meaning of each label. A label never holds an argument, a principal or a session."""


class CallMetrics(Collector):
    """A plugin that counts calls, and an ASGI application that serves the counts.

    A label is the name of a tool, a policy or a status, and never a text of a model.

    Args:
        registry: The registry of the metrics; a new one by default, which has the counts of all
            processes if `PROMETHEUS_MULTIPROC_DIR` is set.
        buckets: The upper bounds of the buckets of durations, in seconds.
        max_tools: The most tools with a label.

    Attributes:
        registry: The registry to serve.

    Example:
        >>> from toolstile import Host, ToolCall
        >>> metrics = CallMetrics()
        >>> with Host(discover=False, plugins=[metrics]) as host, host.executor() as tools:
        ...     _ = tools.dispatch(ToolCall("invented"))
        >>> called = {"tool": "(unknown)", "status": "unknown_tool"}
        >>> metrics.registry.get_sample_value("toolstile_calls_total", called)
        1.0
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        buckets: Sequence[float] = BUCKETS,
        max_tools: int = 500,
    ) -> None:
        self.registry = counted = registry or CollectorRegistry(auto_describe=True)
        if registry is None and os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            self.registry = CollectorRegistry()
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]
        self._max_tools = max_tools
        self._tools: set[str] = set()
        self._host: HostHandle | None = None

        self._counters = {
            name: Counter(f"toolstile_{name}", text, labels, registry=counted)
            for name, (text, labels) in COUNTERS.items()
        }
        # The tools of the calls in each open transaction, which its end keeps or puts back.
        self._undecided = defaultdict[str, list[str]](list)
        name, text = DURATION
        self._duration = Histogram(
            f"toolstile_{name}",
            text,
            ["tool"],
            buckets=buckets,
            registry=counted,
        )
        self.registry.register(self)

    @hookimpl
    @contextmanager
    def toolstile_lifespan(self, host: HostHandle) -> Generator[None]:
        """Count the waiting questions of the host's inbox within the block."""
        self._host = host
        try:
            yield
        finally:
            self._host = None

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Count a call."""
        tool = UNKNOWN if event.tool is None else self._label(event.tool.name)
        self._counters["calls"].labels(tool, str(event.status)).inc()
        self._duration.labels(tool).observe(event.duration)
        if event.status is Status.DENIED:
            denials = [each for each in event.decisions if each.verdict is Verdict.DENY]
            other = APPROVER if APPROVAL in event.attributes else HOST
            for policy in {each.policy or HOST for each in denials} or {other}:
                self._counters["denials"].labels(tool, policy).inc()
        if event.rolled_back:
            self._counters["rollbacks"].labels(tool).inc()
        elif event.pending and event.transaction is not None:
            self._undecided[event.transaction].append(tool)
        if event.agent != MAIN_AGENT:
            self._counters["agent_calls"].labels(tool, self._label(event.agent)).inc()
        if event.reruns:
            self._counters["reruns"].labels(tool).inc(event.reruns)
        if (state := event.attributes.get("ledger.state")) is not None:
            self._counters["ledger_calls"].labels(tool, str(state)).inc()

    @hookimpl
    def toolstile_transaction(self, event: TransactionEnded) -> None:
        """Count a transaction, and the rollbacks of its calls if it is not kept."""
        self._counters["transactions"].labels(str(event.status)).inc()
        tools = self._undecided.pop(event.id, [])
        if event.status in {TransactionStatus.ROLLED_BACK, TransactionStatus.CONFLICT}:
            for tool in tools:
                self._counters["rollbacks"].labels(tool).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield the number of questions that wait now, by tool."""
        tally = Tally[str]()
        if (host := self._host) is not None:
            with host.executor() as tools:
                store = tools.resources.get(ApprovalStore, None)  # type: ignore[type-abstract]
            waiting, now = QuestionState.WAITING, host.clock.now()
            asked = () if store is None else store.questions({waiting})
            tally.update(self._label(each.tool) for each in asked if each.state_at(now) is waiting)
        name, text = WAITING
        family = GaugeMetricFamily(f"toolstile_{name}", text, labels=["tool"])
        for tool, number in tally.items():
            family.add_metric([tool], number)
        yield family

    async def __call__(
        self, scope: dict[str, Any], _receive: object, send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Serve the counts to a scraper."""
        accepts = b",".join(value for name, value in scope["headers"] if name == b"accept")
        encode, content_type = choose_encoder(accepts.decode("latin-1"))
        # The questions are read from a file.
        body = await asyncio.to_thread(encode, self.registry)
        headers = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    @contextmanager
    def served(self, address: str, port: int) -> Generator[None]:
        """Serve the counts during the block; an unusable port raises `ConfigurationError`."""
        try:
            server, thread = start_http_server(port, address, self.registry)
        except OSError as error:
            raise ConfigurationError(
                f"Metrics cannot be served on {address}, port {port}: {error.strerror or error}. "
                "Give another port in [plugins.metrics]."
            ) from error
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _label(self, name: str) -> str:
        if name not in self._tools and len(self._tools) >= self._max_tools:
            return OTHERS
        self._tools.add(name)
        return name
