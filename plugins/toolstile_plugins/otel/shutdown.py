"""The last export at the end, with a limited wait for exporters that do not answer."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from threading import TIMEOUT_MAX, Lock, Thread
from time import monotonic
from typing import Final, Protocol

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from toolstile_hookspecs import NOTICE
from toolstile_hookspecs.support.text import counted

log = logging.getLogger("toolstile.otel")

PATIENCE: Final = 3.0
"""Seconds for which the end waits, unless the environment says how long an export may take."""
_TIMEOUTS: Final = (
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
)

Step = Callable[[], object]

COLLECTOR: Final = (
    "See that OTEL_EXPORTER_OTLP_ENDPOINT names a collector that runs and takes them; "
    "OTEL_EXPORTER_OTLP_TIMEOUT says for how many seconds to wait for it."
)
LAST: Final = 1.0
"""Seconds more, for exporters that have to give up."""


def started(steps: Sequence[Step]) -> list[Thread]:
    """Start steps, all at once, each in a thread that keeps no process from ending."""
    threads = [
        Thread(target=_taken, args=(step,), name="toolstile-otel", daemon=True) for step in steps
    ]
    for thread in threads:
        thread.start()
    return threads


def _taken(step: Step) -> None:
    try:
        step()
    except Exception:
        log.exception("Telemetry could not be flushed, or shut down.")


def ended(threads: Sequence[Thread], seconds: float) -> bool:
    """Wait for threads, and tell whether all have ended in time."""
    until = monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
    return not any(thread.is_alive() for thread in threads)


def patience() -> float:
    """Return the seconds for which the end waits for exports."""
    given = [_number(os.environ.get(name, "")) for name in _TIMEOUTS]
    return min(max(given), TIMEOUT_MAX) or PATIENCE


def _number(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if seconds > 0 else 0.0  # not NaN, either


class Exporter(Protocol):
    """Sends spans or metrics."""

    def shutdown(self) -> None:
        """Send nothing more, and give up what waits to be tried again."""


class CountingExporter(SpanExporter):
    """Counts the spans that an exporter could not export, or has not yet.

    Args:
        exporter: The exporter.
        remedy: The remedy where it cannot export.

    Attributes:
        lost: The number of these spans.
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
    """Shut providers down, all at once, which exports the rest; late exporters give up."""
    threads = started(shutdowns)
    if not ended(threads, patience()):
        # One that hangs need not end now, either.
        ended([*threads, *started([exporter.shutdown for exporter in exporters])], LAST)
    lost: Counter[str] = Counter()
    for exporter in exporters:
        if isinstance(exporter, CountingExporter):
            lost[exporter.remedy] += exporter.lost
    for remedy, number in (+lost).items():
        log.warning("%s could not be exported. %s", counted(number, "span"), remedy, extra=NOTICE)
