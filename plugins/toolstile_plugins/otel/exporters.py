"""The plugin's own providers, for the settings, an option or the environment."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, Any, Final

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
    SimpleSpanProcessor,
)

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.otel.attributes import OUTCOME
from toolstile_plugins.otel.cli import ENVIRONMENT
from toolstile_plugins.otel.providers import Providers, is_real
from toolstile_plugins.otel.settings import CONSOLE, OTLP, names_file
from toolstile_plugins.otel.shutdown import CountingExporter, Exporter, end

log = logging.getLogger("toolstile.otel")

SERVICE: Final = "toolstile"
NONE: Final = "none"
PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


@contextmanager
def exporting(where: str) -> Generator[Providers]:
    """Give providers that export to the configured place, within the block.

    The first providers in a process become the global ones, so that handlers can use them.
    `ConfigurationError`: an exporter is not installed, or the file cannot be written.
    """
    with ExitStack() as stack:
        exporters: list[Exporter] = []
        processors = [*_processors(where, stack, exporters)]
        readers: list[MetricReader] = []
        for name in _of_metrics(where):
            made = _loaded("metrics", name)()
            if not isinstance(made, MetricReader):
                exporters.append(made)
                made = PeriodicExportingMetricReader(made)
            readers.append(made)
        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
        spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in processors:
            spans.add_span_processor(processor)
        meters = None
        if readers:
            meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
        shutdowns = [provider.shutdown for provider in (spans, meters) if provider is not None]
        stack.callback(end, shutdowns, exporters)
        if not is_real(trace.get_tracer_provider()):
            trace.set_tracer_provider(spans)
        if meters is not None and not is_real(metrics.get_meter_provider()):
            metrics.set_meter_provider(meters)
        yield Providers(spans, meters)


def named(where: str) -> list[str]:
    """Return the named exporters of spans; `ConfigurationError` if one is not installed."""
    traces = _of_traces(where)
    for name in traces:
        if name != CONSOLE:
            _loaded("traces", name)
    for name in _of_metrics(where):
        _loaded("metrics", name)
    return traces


def _processors(where: str, stack: ExitStack, exporters: list[Exporter]) -> Iterable[SpanProcessor]:
    if names_file(where):
        out = stack.enter_context(_appended(where))
        exporter = CountingExporter(
            ConsoleSpanExporter(out=out, formatter=lambda span: f"{span.to_json(indent=None)}\n"),
            f"See that {where} can be written: its disk may be full.",
        )
        exporters.append(exporter)
        # Each span at once, so that a process that dies has written it.
        yield SimpleSpanProcessor(exporter)
        return
    for name in _of_traces(where):
        if name == CONSOLE:
            yield SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr, formatter=_shown))
        else:
            exporter = CountingExporter(_loaded("traces", name)())
            exporters.append(exporter)
            yield BatchSpanProcessor(exporter)


def _of_traces(where: str) -> list[str]:
    return _names("OTEL_TRACES_EXPORTER", "TRACES") if where == ENVIRONMENT else [where]


def _of_metrics(where: str) -> list[str]:
    if where == ENVIRONMENT:
        return _names("OTEL_METRICS_EXPORTER", "METRICS")
    return [OTLP] if where == OTLP else []


def _shown(span: ReadableSpan) -> str:
    """Return a span as a line for people; a file has the whole span."""
    attributes = span.attributes or {}
    outcome = attributes.get(OUTCOME, span.status.status_code.name.lower())
    milliseconds = ((span.end_time or 0) - (span.start_time or 0)) / 1_000_000
    parent = "" if span.parent is None else f" parent={trace.format_span_id(span.parent.span_id)}"
    within = ""
    if (ids := span.get_span_context()) is not None:
        trace_id, span_id = trace.format_trace_id(ids.trace_id), trace.format_span_id(ids.span_id)
        within = f" trace={trace_id} span={span_id}"
    return f"span: {span.name!r} {outcome} {milliseconds:.1f} ms{within}{parent}\n"


@contextmanager
def _appended(file: str) -> Generator[IO[str]]:
    try:
        out = Path(file).open("a", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigurationError(
            f"Spans cannot be written to {file!r}: {error.strerror}. Name a file that can be "
            f"written, in a folder that exists, or {CONSOLE} or {OTLP}."
        ) from error
    try:
        # Several hosts may append to a file of spans, but a record has its file alone.
        fcntl.flock(out, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        out.close()
        raise ConfigurationError(
            f"Spans cannot be written to {file!r}: it is being written as something else, such as "
            "a record. Name another file."
        ) from error
    except OSError as error:
        # Not every file can be locked: a pipe or a file on another machine may not.
        log.debug("%s is not locked: %s", file, error)
    try:
        yield out
    finally:
        # A failed write was reported before.
        with suppress(OSError):
            out.close()


def _names(variable: str, signal: str) -> list[str]:
    """Return the exporters that the environment names, OTLP if it only names an endpoint."""
    given = os.environ.get(variable, "")
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names and any(
        os.environ.get(name)
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    ):
        names = [OTLP]
    return [name for name in names if name != NONE]


def _loaded(signal: str, name: str) -> Callable[[], Any]:
    entry = name
    if name == OTLP:
        variables = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
        asked = next((os.environ[each] for each in variables if os.environ.get(each)), "")
        entry = PROTOCOLS.get(asked.strip(), PROTOCOLS["http/protobuf"])
    for found in entry_points(group=f"opentelemetry_{signal}_exporter", name=entry):
        loaded: Callable[[], Any] = found.load()
        return loaded
    remedy = extra_remedy("observability") if name == OTLP else f"Install a package with {name!r}"
    raise ConfigurationError(
        f"Telemetry cannot be exported: the exporter {entry!r} for {signal} is missing. {remedy}."
    )
