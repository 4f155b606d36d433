"""Calls are traced with the providers that are there, and with none where there is none."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolstile import Host, MarkdownSection, Prompt, Settings, ToolCall
from toolstile_hookspecs import ConfigurationError, tool
from toolstile_plugins import otel
from toolstile_plugins.otel import exporters
from toolstile_plugins.otel.lifespan import open_providers
from toolstile_plugins.otel.providers import find_providers


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


PROMPT = Prompt.of("tests", "otel", [MarkdownSection(key="t", title="Tools", tools=[add])])


@pytest.fixture(autouse=True)
def nothing_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setattr(metrics, "get_meter_provider", metrics.NoOpMeterProvider)


def test_those_of_the_interface_are_none() -> None:
    assert find_providers() is None
    with open_providers(None) as found:
        assert found is None


FOUND_LATE = """
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from toolstile_plugins.otel.providers import find_providers

assert find_providers() is None
metrics.set_meter_provider(MeterProvider())
assert find_providers().metrics is metrics.get_meter_provider()
trace.set_tracer_provider(TracerProvider())
assert find_providers().spans is trace.get_tracer_provider()
"""
FOUND_BY_NAME = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from toolstile_plugins.otel.providers import find_providers

assert isinstance(find_providers().spans, TracerProvider)
"""


@pytest.mark.parametrize(
    ("program", "variables"),
    [(FOUND_LATE, {}), (FOUND_BY_NAME, {"OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"})],
)
def test_the_interface_gives_them_as_soon_as_there_are_some(
    program: str, variables: dict[str, str]
) -> None:
    subprocess.run([sys.executable, "-c", program], env=os.environ | variables, check=True)


def test_those_of_the_application_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spans, meters = TracerProvider(), MeterProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)
    found = find_providers()
    assert found is not None
    assert (found.spans, found.metrics) == (spans, meters)


def test_durations_are_measured_without_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)
    with Host(discover=False, plugins=[otel]) as host, host.executor(prompt=PROMPT) as tools:
        assert tools.dispatch(ToolCall("add", {"a": 1, "b": 2})).success
    data: Any = reader.get_metrics_data()
    assert data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points[0].count == 1


def test_a_closed_host_traces_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans)
    host = Host(discover=False, plugins=[otel])
    for _ in range(2):
        with host:
            assert len(host.plugins.implementations("toolstile_trace")) == 1
        assert host.plugins.implementations("toolstile_trace") == ()


def test_one_that_is_configured_later_is_used_from_then_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spans, exported = TracerProvider(), InMemorySpanExporter()
    spans.add_span_processor(SimpleSpanProcessor(exported))
    call = ToolCall("logged", {"text": "now"}, id="call_1")

    @tool
    def logged(text: str) -> None:
        """Log something."""
        logging.getLogger("tests").warning("%s", text)

    prompt = Prompt.of("tests", "otel", [MarkdownSection(key="t", title="Tools", tools=[logged])])
    with Host(discover=False, plugins=[otel]) as host, host.executor(prompt=prompt) as tools:
        assert tools.dispatch(ToolCall("logged", {"text": "before"})).success
        assert exported.get_finished_spans() == ()
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans)
        assert tools.dispatch(call).success
        assert not tools.dispatch(ToolCall("logged", {"text": 7})).success
    first, second = exported.get_finished_spans()
    assert first.attributes is not None
    assert second.attributes is not None
    assert first.attributes["toolstile.outcome"] == "succeeded"
    assert second.attributes["toolstile.outcome"] == "invalid"
    [line] = [each for each in caplog.records if each.getMessage() == "now"]
    assert vars(line)["toolstileCallID"] == "call_1"
    assert host.plugins.implementations("toolstile_trace") == ()
    assert not hasattr(logging.getLogRecordFactory(), "active")


@pytest.mark.slow
def test_an_application_may_configure_one_while_the_host_is_open() -> None:
    # In a process of its own, since the global provider cannot be set twice.
    code = (
        "from opentelemetry import trace\n"
        "from toolstile import Host, ToolCall\n"
        "import toolstile_cli.examples.orders as orders\n"
        "with Host(plugins=[orders]) as host, host.executor() as tools:\n"
        "    from opentelemetry.sdk.trace import TracerProvider\n"
        "    from opentelemetry.sdk.trace.export import ConsoleSpanExporter\n"
        "    from opentelemetry.sdk.trace.export import SimpleSpanProcessor\n"
        "    tools.dispatch(ToolCall('list_orders', id='early'))\n"
        "    provider = TracerProvider()\n"
        "    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))\n"
        "    trace.set_tracer_provider(provider)\n"
        "    tools.dispatch(ToolCall('list_orders', id='late'))\n"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert '"gen_ai.tool.call.id": "late"' in done.stdout
    assert "early" not in done.stdout


@pytest.mark.slow
def test_a_host_may_export_by_itself(tmp_path: Any) -> None:
    # In a process of its own, whose global provider it becomes.
    code = (
        "import sys; from opentelemetry import trace\n"
        "from toolstile import Host, Settings, ToolCall\n"
        "import toolstile_cli.examples.orders as orders\n"
        "for name in sys.argv[1:]:\n"
        "    settings = Settings(plugins={'otel': {'trace': name}})\n"
        "    with Host(settings=settings, plugins=[orders]) as host, host.executor() as tools:\n"
        "        tools.dispatch(ToolCall('list_orders'))\n"
        "        with trace.get_tracer('app').start_as_current_span('mine'): pass\n"
    )
    files = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    assert run_python(code, *map(str, files)).returncode == 0
    assert '"mine"' in files[0].read_text()
    assert [len(file.read_text().splitlines()) for file in files] == [2, 1]


def test_a_directory_is_no_file(tmp_path: Any) -> None:
    settings = Settings(plugins={"otel": {"trace": str(tmp_path)}})
    with pytest.raises(ConfigurationError, match="Spans cannot be written to"):
        Host(settings=settings).open()


UNUSABLE = [
    ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "max_queue_size must be a positive integer"),
    ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "many", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT must be"),
    ("OTEL_PROPAGATORS", "none-such", "Propagator none-such not found"),
]


@pytest.mark.parametrize(("variable", "value", "why"), UNUSABLE)
def test_a_variable_that_cannot_be_used_is_an_error_or_left_alone(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    value: str,
    why: str,
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.delitem(sys.modules, "opentelemetry.propagate")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    with pytest.raises(ConfigurationError, match=why) as raised, open_providers("otlp"):
        pass
    assert "Fix the OTEL_* variable that says so, or unset it." in str(raised.value)
    with open_providers("env") as providers:
        assert providers == find_providers()
    assert why in caplog.text
    assert "The OTEL_* variables are left alone." in caplog.text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_spans_that_no_file_takes_are_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exporters, "is_real", lambda _: True)
    with open_providers("/dev/full") as providers:
        assert providers is not None
        for _ in range(2):
            providers.spans.get_tracer("tests").start_span("one").end()
    assert "2 spans could not be exported. See that /dev/full can be written" in caplog.text


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TOOLSTILE_"))}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
