"""The last export at the end, with a limited wait for exporters that do not answer."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX, Lock, Thread
from time import monotonic
from typing import Final, Protocol

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from toolstile_hookspecs import NOTICE
from toolstile_hookspecs.support.text import counted

log = logging.getLogger("toolstile.otel")

PATIENCE: Final = 3.0
"""Seconds for which the end waits, unless the environment limits the time of an export."""
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
"""Further seconds, for exporters that must give up."""


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
    """Wait for threads, and return whether all have ended in time."""
    until = monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
    return not any(thread.is_alive() for thread in threads)


def patience() -> float:
    """Return the seconds for which the end waits for exports."""
    longest = 0.0
    for name in _TIMEOUTS:
        with suppress(ValueError):
            seconds = float(os.environ.get(name, ""))
            longest = max(longest, seconds if seconds > 0 else 0.0)  # not NaN, either
    return min(longest, TIMEOUT_MAX) or PATIENCE


class Exporter(Protocol):
    """Sends spans or metrics."""

    def shutdown(self) -> None:
        """Send nothing more, and drop all retries."""


@dataclass(eq=False)
class CountingExporter(SpanExporter):
    """Counts in `lost` the spans that an exporter could not export, or has not exported yet."""

    _exporter: SpanExporter
    remedy: str = COLLECTOR
    lost: int = 0
    _lock: Lock = field(default_factory=Lock)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export spans."""
        # Lost until the export has ended: the process may end before.
        self._count(len(spans))
        exported = self._exporter.export(spans)
        if exported is SpanExportResult.SUCCESS:
            self._count(-len(spans))
        return exported

    def shutdown(self) -> None:
        """Export nothing more."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Export the spans that it has buffered."""
        return self._exporter.force_flush(timeout_millis)

    def _count(self, more: int) -> None:
        with self._lock:
            self.lost += more


def end(shutdowns: Sequence[Step], exporters: Sequence[Exporter]) -> None:
    """Shut providers down, all at once, which exports the rest; late exporters give up."""
    threads = started(shutdowns)
    if not ended(threads, patience()):
        # A thread that hangs may not end after this, either.
        ended([*threads, *started([exporter.shutdown for exporter in exporters])], LAST)
    lost: Counter[str] = Counter()
    for exporter in exporters:
        if isinstance(exporter, CountingExporter):
            lost[exporter.remedy] += exporter.lost
    for remedy, number in (+lost).items():
        log.warning("%s could not be exported. %s", counted(number, "span"), remedy, extra=NOTICE)
