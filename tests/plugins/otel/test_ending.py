"""At the end what is left is exported, and those that do not answer are not waited for."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event, Timer
from time import monotonic

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import INVALID_SPAN

from toolstile_hookspecs import ToolCall
from toolstile_plugins.otel import shutdown as ending, shutdown as patience
from toolstile_plugins.otel.propagation import ProcessTrace
from toolstile_plugins.otel.shutdown import CountingExporter, end


class Unanswered(SpanExporter):
    """Tries again and again until it is shut down."""

    def __init__(self) -> None:
        self.given_up = Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert self.given_up.wait(30)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.given_up.set()


class Hanging(Unanswered):
    """Does not end, whatever it is told."""

    def shutdown(self) -> None:
        self.export([])


class Slow(SpanExporter):
    """Takes its time, and then has exported."""

    def __init__(self) -> None:
        self.may_end = Event()
        self.shut_early = False
        self.ended = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        assert self.may_end.wait(30)
        self.ended = True
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.shut_early = not self.ended


class Broken(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        msg = "broken"
        raise RuntimeError(msg)

    def shutdown(self) -> None:
        pass


def traced(exporter: CountingExporter, spans: int = 1) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    for _ in range(spans):
        provider.get_tracer("tests").start_span("one").end()
    return provider


def test_who_does_not_answer_gives_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.01")
    exporters = [CountingExporter(Unanswered()), CountingExporter(Unanswered())]
    providers = [traced(exporters[0], 2), traced(exporters[1])]
    end([each.shutdown for each in providers], exporters)
    assert [each.lost for each in exporters] == [2, 1]
    assert "3 spans could not be exported. See that OTEL_EXPORTER_OTLP_ENDPOINT" in caplog.text


def test_who_is_slow_is_waited_for_as_long_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "no number")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "60")
    monkeypatch.setattr(patience, "PATIENCE", 0.0)
    slow = Slow()
    exporter = CountingExporter(slow)
    Timer(0.1, slow.may_end.set).start()
    end([traced(exporter).shutdown], [exporter])
    assert (slow.ended, slow.shut_early, exporter.lost) == (True, False, 0)
    assert "could not be exported" not in caplog.text


def test_spans_that_break_their_exporter_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    exporter = CountingExporter(Broken())
    end([traced(exporter).shutdown], [exporter])
    assert exporter.lost == 1
    assert "1 span could not be exported." in caplog.text


def test_who_hangs_when_it_is_told_to_give_up_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.01")
    monkeypatch.setattr(ending, "LAST", 0.1)
    hanging = Hanging()
    exporter = CountingExporter(hanging)
    began = monotonic()
    end([traced(exporter).shutdown], [exporter])
    assert monotonic() - began < 5
    assert "1 span could not be exported." in caplog.text
    hanging.given_up.set()


def test_a_provider_that_hangs_keeps_no_isolated_call_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.01")
    hanging = Hanging()
    provider = traced(CountingExporter(hanging))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    crossing = ProcessTrace.of(INVALID_SPAN, ToolCall("add", {}), None, logs=False)
    began = monotonic()
    with crossing:
        pass
    assert monotonic() - began < 5
    hanging.given_up.set()


def test_who_fails_to_shut_down_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def shutdown() -> None:
        raise RuntimeError("broken")

    end([shutdown], [])
    assert "Telemetry could not be flushed, or shut down." in caplog.text
    assert "RuntimeError: broken" in caplog.text


@pytest.mark.parametrize("seconds", ["inf", "1e12", "nan", "-5"])
def test_a_timeout_that_no_clock_has_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", seconds)
    slow = Slow()
    exporter = CountingExporter(slow)
    Timer(0.1, slow.may_end.set).start()
    end([traced(exporter).shutdown], [exporter])
    assert (slow.ended, slow.shut_early, exporter.lost) == (True, False, 0)
