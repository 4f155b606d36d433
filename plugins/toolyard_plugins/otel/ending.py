"""Exporting what is left at the end, without waiting long for those that do not answer."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from time import monotonic
from typing import Final, Protocol

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from toolyard_hookspecs import NOTICE

log = logging.getLogger("toolyard.otel")

PATIENCE: Final = 3.0
"""Seconds for which the end waits, unless the environment says how long an export may take."""
LAST: Final = 1.0
"""Seconds more, for those that were told to give up."""
_TIMEOUTS: Final = (
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
)

Step = Callable[[], object]


class Exporter(Protocol):
    """Sends spans or metrics."""

    def shutdown(self) -> None:
        """Send nothing more; what waits to be tried again is given up."""
        ...


class CountingExporter(SpanExporter):
    """Counts the spans that an exporter could not export.

    Args:
        exporter: The exporter.

    Attributes:
        lost: How many it were.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._lock = Lock()
        self.lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans."""
        exported = SpanExportResult.FAILURE
        try:
            exported = self._exporter.export(spans)
        finally:
            if exported is not SpanExportResult.SUCCESS:
                with self._lock:
                    self.lost += len(spans)
        return exported

    def shutdown(self) -> None:
        """Export nothing more."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Export what it keeps back."""
        return self._exporter.force_flush(timeout_millis)


def end(shutdowns: Sequence[Step], exporters: Sequence[Exporter]) -> None:
    """Shut providers down, all at once, which exports what is left.

    Args:
        shutdowns: What shuts them down.
        exporters: What they export with. Those that have not ended in time give up.
    """
    threads = [Thread(target=each, name="toolyard-otel", daemon=True) for each in shutdowns]
    for each in threads:
        each.start()
    if not _ended(threads, _patience()):
        for exporter in exporters:
            exporter.shutdown()
        _ended(threads, LAST)
    lost = sum(each.lost for each in exporters if isinstance(each, CountingExporter))
    if lost:
        log.warning(
            "%s could not be exported. See that OTEL_EXPORTER_OTLP_ENDPOINT names a collector "
            "that runs and takes them; OTEL_EXPORTER_OTLP_TIMEOUT says for how many seconds to "
            "wait for it.",
            "1 span" if lost == 1 else f"{lost:,} spans",
            extra=NOTICE,
        )


def _ended(threads: Sequence[Thread], seconds: float) -> bool:
    until = monotonic() + seconds
    for each in threads:
        each.join(max(0.0, until - monotonic()))
    return not any(each.is_alive() for each in threads)


def _patience() -> float:
    given = [seconds for name in _TIMEOUTS if (seconds := _number(os.environ.get(name, "")))]
    return max(given, default=PATIENCE)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
