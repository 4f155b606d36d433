"""Waiting for those that export, but not for long."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from threading import TIMEOUT_MAX, Thread
from time import monotonic
from typing import Final

log = logging.getLogger("toolstile.otel")

PATIENCE: Final = 3.0
"""Seconds for which the end waits, unless the environment says how long an export may take."""
_TIMEOUTS: Final = (
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
)

Step = Callable[[], object]


def started(steps: Sequence[Step]) -> list[Thread]:
    """Start steps, all at once, each in a thread that keeps no process from ending."""
    threads = [
        Thread(target=_taken, args=(each,), name="toolstile-otel", daemon=True) for each in steps
    ]
    for each in threads:
        each.start()
    return threads


def _taken(step: Step) -> None:
    try:
        step()
    except Exception:
        log.exception("Telemetry could not be flushed, or shut down.")


def ended(threads: Sequence[Thread], seconds: float) -> bool:
    """Wait for threads, and tell whether all have ended in time."""
    until = monotonic() + seconds
    for each in threads:
        each.join(max(0.0, until - monotonic()))
    return not any(each.is_alive() for each in threads)


def patience() -> float:
    """Return the seconds for which the end waits for exports."""
    given = [_number(os.environ.get(name, "")) for name in _TIMEOUTS]
    return min(max(given), TIMEOUT_MAX) or PATIENCE


def _number(text: str) -> float:
    """Return the seconds that a text says, 0 where it says none."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if seconds > 0 else 0.0  # not NaN, either
