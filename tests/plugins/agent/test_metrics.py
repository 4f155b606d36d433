"""Requests and runs are measured as the conventions say, under names that the conventions have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from toolstile import Host, MarkdownSection, Prompt, Settings, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs.agents.messages import Usage
from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_plugins.agent import Agent, AgentConfig, Price

SHARED = {"gen_ai.provider.name": "scripted", "gen_ai.request.model": "script"}
REQUEST = {"gen_ai.operation.name": "chat", **SHARED}
REPLIED = {**REQUEST, "gen_ai.response.model": "script"}
RUN = {"gen_ai.operation.name": "invoke_agent", **SHARED, "gen_ai.agent.name": "demo:sums"}


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


PROMPT = Prompt.of("demo", "sums", [MarkdownSection(key="s", title="Sums", tools=[add])])


ADDING: Any = [("add", {"a": 1, "b": 2})]


class Spelling(ScriptedModel):
    """A model that tells its text in three pieces where somebody listens."""

    def send(self, request: Any, listen: Any = None) -> Any:
        turn = super().send(request)
        for piece in ("So", " it", " is") if listen else ():
            listen(piece)
        return turn


class Measured:
    """The metrics and spans of a process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reader, self.exporter = InMemoryMetricReader(), InMemorySpanExporter()
        spans, meters = TracerProvider(), MeterProvider([self._reader])
        spans.add_span_processor(SimpleSpanProcessor(self.exporter))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans)
        monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)

    def all(self) -> dict[str, list[tuple[dict[str, Any], int, float]]]:
        """Return attributes, count and sum of each series, by metric."""
        data = self._reader.get_metrics_data()
        found: Any = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        return {
            metric.name: [
                (dict(point.attributes), point.count, point.sum)
                for point in metric.data.data_points
            ]
            for metric in found
        }


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    return Measured(monkeypatch)


@pytest.fixture
def host(measured: Measured) -> Iterator[Host]:
    settings = {"plugins": {"otel": {"stages": True, "capture": True}}}
    with Host(discover=["otel"], settings=Settings.model_validate(settings)) as host:
        yield host


@pytest.mark.parametrize("is_async", [False, True])
def test_a_run_its_requests_and_its_tokens_are_measured(
    measured: Measured, host: Host, *, is_async: bool
) -> None:
    limited = ProviderError("slow down", FaultType.RATE_LIMIT, retry_after=0.0, usage=Usage(7, 0))
    sums: Any = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
    model = ScriptedModel(limited, sums, "Done.", usage=Usage(50, 7))
    agent = Agent[str](PROMPT, adapter=model, host=host)
    assert (asyncio.run(agent.arun("Add")) if is_async else agent.run("Add")).success

    found = measured.all()
    counts = {name: [point[:2] for point in points] for name, points in found.items()}
    assert counts["gen_ai.client.operation.duration"] == [
        ({**REQUEST, "error.type": "rate_limit"}, 1),
        (REPLIED, 2),
    ]
    assert found["gen_ai.client.token.usage"] == [
        ({**REQUEST, "gen_ai.token.type": "input"}, 1, 7),
        ({**REQUEST, "gen_ai.token.type": "output"}, 1, 0),
        ({**REPLIED, "gen_ai.token.type": "input"}, 2, 100),
        ({**REPLIED, "gen_ai.token.type": "output"}, 2, 14),
    ]
    assert counts["gen_ai.invoke_agent.duration"] == [(RUN, 1)]
    assert found["gen_ai.invoke_agent.inference_calls"] == [(RUN, 1, 3)]
    assert found["gen_ai.invoke_agent.tool_calls"] == [(RUN, 1, 2)]
    assert "gen_ai.client.operation.time_to_first_chunk" not in found


def test_the_chunks_of_a_stream_are_measured(measured: Measured, host: Host) -> None:
    list(Agent[str](PROMPT, adapter=Spelling("So it is"), host=host).stream("Add"))

    found = measured.all()
    assert found["gen_ai.client.operation.time_to_first_chunk"][0][1] == 1
    assert found["gen_ai.client.operation.time_per_output_chunk"][0][1] == 2


def test_all_names_are_those_of_the_conventions(measured: Measured, host: Host) -> None:
    list(Agent[str](PROMPT, adapter=Spelling(ADDING, "Done."), host=host).stream("Add"))

    attributes, names = (
        {value for key, value in vars(module).items() if key.startswith("GEN_AI_")}
        for module in (gen_ai_attributes, gen_ai_metrics)
    )
    found = measured.all()
    told = {
        name for span in measured.exporter.get_finished_spans() for name in span.attributes or {}
    }
    told |= {name for points in found.values() for point in points for name in point[0]}
    assert {name for name in told if name.startswith("gen_ai.")} <= attributes
    # The package has the client's metrics; those of agents and tools are in the conventions' own
    # repository, to which all of them have moved.
    moved = ("gen_ai.invoke_agent.", "gen_ai.execute_tool.")
    clients = {name for name in found if not name.startswith(moved)}
    assert clients == {name for name in names if ".client." in name}


def test_a_run_has_the_cost_of_its_tokens(measured: Measured, host: Host) -> None:
    prices = {"script": Price(2.0, 10.0, cached=0.5, written=2.5)}
    usage = Usage(1_000_000, 100_000, 400_000, 200_000, 50_000)
    model = ScriptedModel(ADDING, "Done.", usage=usage)
    results = [
        Agent[str](PROMPT, adapter=ScriptedModel("Hi.", usage=usage), host=host, config=config)
        .run("Hi")
        .usage.cost
        for config in (AgentConfig(prices=prices), AgentConfig(prices={}))
    ]
    assert results == [2.5, None]

    agent = Agent[str](PROMPT, adapter=model, host=host, config=AgentConfig(prices=prices))
    assert agent.run("Add").usage == replace(usage + usage, cost=5.0)
    (*_, span) = measured.exporter.get_finished_spans()
    assert (span.attributes or {})["toolstile.usage.cost"] == 5.0
