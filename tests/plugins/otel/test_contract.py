"""Tracing keeps to the contract of observers, with contents captured."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolstile_hookspecs.testing import ObserverContract
from toolstile_plugins.otel.providers import Providers
from toolstile_plugins.otel.settings import OtelSettings
from toolstile_plugins.otel.spans import CallTracing

pytestmark = pytest.mark.slow


class TestTracing(ObserverContract):
    @pytest.fixture
    def exporter(self):
        return InMemorySpanExporter()

    @pytest.fixture
    def plugin(self, exporter):
        tracer = TracerProvider()
        tracer.add_span_processor(SimpleSpanProcessor(exporter))
        return CallTracing(OtelSettings(capture=True), Providers(tracer, MeterProvider()))

    @pytest.fixture
    def heard(self, exporter):
        return lambda bench: len(exporter.get_finished_spans())

    @pytest.fixture
    def written(self, exporter):
        return lambda bench: "".join(each.to_json() for each in exporter.get_finished_spans())

    @pytest.fixture
    def break_it(self, exporter):
        def export(spans):
            raise OSError("The disk is full.")

        return lambda: setattr(exporter, "export", export)
