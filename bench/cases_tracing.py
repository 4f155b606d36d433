"""The cost that a span and a duration add to a call, on top of a full host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Final

from floors import FLOOR_OF_ADD
from full_host import executor_for, full_host
from measuring import Block, Case, Effort, Probe, Row, compare, on_top, timed
from opentelemetry.context import attach, detach
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import set_span_in_context
from workload import ADD_ARGUMENTS, add

from toolstile import Host
from toolstile_hookspecs import ToolCall, tool
from toolstile_plugins.otel.attributes import (
    CALL_ID,
    FUNCTION,
    OUTCOME,
    SCOPE,
    SESSION_ID,
    TOOL_NAME,
    TOOL_TYPE,
    of_tool,
)
from toolstile_plugins.otel.providers import Providers
from toolstile_plugins.otel.settings import OtelSettings
from toolstile_plugins.otel.spans import BUCKETS, DURATION, CallTracing

LIMIT: Final = 1.6
"""The most that a span and a histogram may add, as a multiple of the SDK alone."""
GOAL: Final = 1.3

OTEL: Final = ("otel",)
SDK_ALONE: Final = "the SDK alone: the same span and duration, without a call"
SDK_IN_TURN: Final = "the SDK alone, each after a call without tracing"

HOSTS: Final[dict[str, Callable[[], Host]]] = {
    "add: full host, no plugin otel": lambda: full_host(block=OTEL),
    "add: full host, plugin otel without a provider": full_host,
    "add: full host, span and histogram": lambda: full_host(_tracing(exported=False), block=OTEL),
    "add: full host, span and histogram, exported in batches": lambda: full_host(
        _tracing(exported=True), block=OTEL
    ),
}


def measure_tracing(effort: Effort) -> list[Row]:
    """Measure `add` through a full host, and with tracing."""
    hosts = [Case(Probe(name, _calling(HOSTS[name])), FLOOR_OF_ADD) for name in HOSTS]
    sdk = {SDK_ALONE: _sdk_alone, SDK_IN_TURN: _sdk_in_turn}
    rows = compare(
        [*hosts, *(Case(Probe(name, opened), FLOOR_OF_ADD) for name, opened in sdk.items())],
        effort,
    )
    by_name = {row.case: row for row in rows}
    plain, _, traced, _ = (by_name[name] for name in HOSTS)
    added = on_top("add: a span and a histogram, on top of a full host", traced, plain)
    return [*rows, added, _beside_the_sdk(added, by_name[SDK_IN_TURN])]


def _beside_the_sdk(added: Row, sdk: Row) -> Row:
    assert added.figure is not None
    assert sdk.figure is not None
    return Row(
        case="the same, against the SDK alone in its place",
        floor=sdk.case,
        minimum=added.minimum,
        median=added.median,
        figure=added.figure / sdk.figure,
        limit=LIMIT,
        goal=GOAL,
    )


def _calling(make: Callable[[], Host]) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        timeless = tool(name="add", timeout=None)(add)
        with make() as host, executor_for(host, timeless) as executor:
            assert executor.dispatch(ToolCall("add", ADD_ARGUMENTS)).success
            yield timed(lambda: executor.dispatch(ToolCall("add", ADD_ARGUMENTS)))

    return opened


@contextmanager
def _sdk_alone() -> Iterator[Block]:
    yield timed(_by_hand())


@contextmanager
def _sdk_in_turn() -> Iterator[Block]:
    """Show what the processor's caches cost: the SDK is never run again and again in life."""
    trace = _by_hand()
    with _calling(lambda: full_host(block=OTEL))() as call:

        def block(times: int) -> float:
            seconds = 0.0
            for _ in range(times):
                call(1)
                started = perf_counter()
                trace()
                seconds += perf_counter() - started
            return seconds

        yield block


def _by_hand() -> Callable[[], None]:
    """Return what does what a call has done for it, with the same SDK and the same attributes."""
    tracer = TracerProvider().get_tracer(SCOPE)
    meter = MeterProvider([InMemoryMetricReader()]).get_meter(SCOPE)
    durations = meter.create_histogram(DURATION, explicit_bucket_boundaries_advisory=BUCKETS)
    known = of_tool(tool(name="add", timeout=None)(add))
    labels = {TOOL_NAME: "add", TOOL_TYPE: FUNCTION}

    def trace() -> None:
        span = tracer.start_span("execute_tool add", attributes={**known, CALL_ID: "call-1"})
        token = attach(set_span_in_context(span))
        detach(token)
        span.set_attributes({OUTCOME: "succeeded", SESSION_ID: "demo"})
        span.end()
        durations.record(0.00002, labels)

    return trace


def _tracing(*, exported: bool) -> CallTracing:
    spans = TracerProvider()
    if exported:
        spans.add_span_processor(BatchSpanProcessor(_Nowhere()))
    metrics = MeterProvider([InMemoryMetricReader()])
    return CallTracing(OtelSettings(capture=False), Providers(spans, metrics))


class _Nowhere(SpanExporter):
    """Takes spans as fast as can be."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - the SDK's
        return SpanExportResult.SUCCESS
