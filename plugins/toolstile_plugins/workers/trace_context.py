"""The W3C trace context of a call, passed from its host to its handler."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress


def current() -> str | None:
    """Return the `traceparent` of the current span, None without OpenTelemetry or a span."""
    # A program that traces has imported it; others need not pay for the import.
    if "opentelemetry" not in sys.modules:
        return None
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier.get("traceparent")


@contextmanager
def attached(traceparent: str) -> Generator[None]:
    """Make the caller's span current within the block, then export the spans."""
    try:
        from opentelemetry import context, propagate, trace
    except ImportError:
        yield
        return
    token = context.attach(propagate.extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        context.detach(token)
        with suppress(AttributeError):
            # The process may be killed before it exports by itself.
            trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]
