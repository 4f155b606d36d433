"""Hosts whose calls are traced with the SDK, into memory."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from toolstile import Executor, Host, Session
from toolstile_hookspecs import MarkdownSection, Outcome, Prompt, Tool, ToolCall, ToolContext, tool
from toolstile_plugins.otel.providers import Providers
from toolstile_plugins.otel.settings import OtelSettings
from toolstile_plugins.otel.spans import CallTracing


class Traced:
    """A host, what it exports, and the driver its calls pass."""

    def __init__(self, driver: str, stack: ExitStack) -> None:
        self.driver = driver
        self._stack = stack
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tools: Executor

    def open(
        self,
        *tools: Tool[Any, Any],
        plugins: tuple[object, ...] = (),
        policies: tuple[Any, ...] = (),
        sampler: Sampler | None = None,
        settings: dict[str, Any] | None = None,
        session: Session | None = None,
        **options: Any,
    ) -> Executor:
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._spans))
        providers = Providers(self.provider, MeterProvider([self._metrics]))
        tracing = CallTracing(OtelSettings(**{"capture": False, **(settings or {})}), providers)
        host = self._stack.enter_context(
            Host(discover=False, plugins=[tracing, *plugins], policies=policies)
        )
        section = MarkdownSection(key="tools", title="Tools", tools=tools)
        self.tools = self._stack.enter_context(
            host.executor(
                prompt=Prompt.of("tests", "otel", (section,)),
                session=session or Session(id="session-1"),
                **options,
            )
        )
        return self.tools

    def dispatch(self, call: ToolCall) -> Outcome:
        if self.driver == "sync":
            return self.tools.dispatch(call)

        async def main() -> Outcome:
            return await self.tools.adispatch(call)

        return asyncio.run(main())

    def dispatch_all(self, calls: list[ToolCall]) -> list[Outcome | BaseException]:
        if self.driver == "sync":
            return self.tools.dispatch_all(calls)

        async def main() -> list[Outcome | BaseException]:
            return await self.tools.adispatch_all(calls)

        return asyncio.run(main())

    def call(self, name: str, /, **arguments: Any) -> Outcome:
        return self.dispatch(ToolCall(name, arguments, id="call_1"))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        (span,) = self.spans
        return span

    def named(self, name: str) -> ReadableSpan:
        (span,) = [each for each in self.spans if each.name == name]
        return span

    def attributes(self) -> dict[str, Any]:
        return dict(self.span.attributes or {})

    def metrics(self) -> list[Any]:
        data = self._metrics.get_metrics_data()
        if data is None:
            return []
        return [
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]

    def points(self) -> list[HistogramDataPoint]:
        return [point for metric in self.metrics() for point in metric.data.data_points]


@pytest.fixture(params=["sync", "async"])
def traced(request: pytest.FixtureRequest) -> Iterator[Traced]:
    with ExitStack() as stack:
        yield Traced(request.param, stack)


@pytest.fixture
def trace_sync() -> Iterator[Callable[[], Traced]]:
    with ExitStack() as stack:
        yield lambda: Traced("sync", stack)


@pytest.fixture
def nested_tool() -> Callable[..., Tool[Any, Any]]:
    """Make a tool that calls `add`."""

    def make(*, is_async: bool) -> Tool[Any, Any]:
        if is_async:

            @tool(name="outer", depends_on=["add"])
            async def aouter(*, context: ToolContext) -> str:
                """Call another tool."""
                return (await context.acall("add", {"a": 1, "b": 2})).text

            return aouter

        @tool(name="outer", depends_on=["add"])
        def outer(*, context: ToolContext) -> str:
            """Call another tool."""
            return context.call("add", {"a": 1, "b": 2}).text

        return outer

    return make


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A receiver of OTLP on loopback."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with importlib.import_module("otlp_receiver").receiving() as made:
        yield made


@pytest.fixture
def make_provider() -> Callable[[pytest.MonkeyPatch], InMemorySpanExporter]:
    """Configure a provider as an application would, for one test; return what it exports to."""

    def make(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        return exporter

    return make
