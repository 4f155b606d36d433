"""Exporting what is left at the end, without waiting long for those that do not answer."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Final, Protocol

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from toolstile_hookspecs import NOTICE
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.otel.patience import Step, ended, patience, started

log = logging.getLogger("toolstile.otel")

COLLECTOR: Final = (
    "See that OTEL_EXPORTER_OTLP_ENDPOINT names a collector that runs and takes them; "
    "OTEL_EXPORTER_OTLP_TIMEOUT says for how many seconds to wait for it."
)
LAST: Final = 1.0
"""Seconds more, for those that were told to give up."""


class Exporter(Protocol):
    """Sends spans or metrics."""

    def shutdown(self) -> None:
        """Send nothing more; what waits to be tried again is given up."""
        ...


class CountingExporter(SpanExporter):
    """Counts the spans that an exporter could not export, or has not yet.

    Args:
        exporter: The exporter.
        remedy: What is to be seen to where it cannot.

    Attributes:
        lost: How many it were.
    """

    def __init__(self, exporter: SpanExporter, remedy: str = COLLECTOR) -> None:
        self._exporter = exporter
        self.remedy = remedy
        self._lock = Lock()
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans."""
        # Lost until it is known better: an export may not end before all else does.
        self._count(len(spans))
        exported = self._exporter.export(spans)
        if exported is SpanExportResult.SUCCESS:
            self._count(-len(spans))
        return exported

    def shutdown(self) -> None:
        """Export nothing more."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Export what it keeps back."""
        return self._exporter.force_flush(timeout_millis)

    def _count(self, more: int) -> None:
        with self._lock:
            self.lost += more


def end(shutdowns: Sequence[Step], exporters: Sequence[Exporter]) -> None:
    """Shut providers down, all at once, which exports what is left.

    Args:
        shutdowns: What shuts them down.
        exporters: What they export with. Those that have not ended in time give up.
    """
    threads = started(shutdowns)
    if not ended(threads, patience()):
        # One that hangs need not end when it is told to, either.
        ended([*threads, *started([each.shutdown for each in exporters])], LAST)
    lost: Counter[str] = Counter()
    for each in exporters:
        if isinstance(each, CountingExporter):
            lost[each.remedy] += each.lost
    for remedy, number in (+lost).items():
        log.warning("%s could not be exported. %s", counted(number, "span"), remedy, extra=NOTICE)
