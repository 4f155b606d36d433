"""The current span: the trace of the innermost call, on any thread or task, and in log records."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from opentelemetry import trace


class CallTrace(Protocol):
    """The trace of a call."""

    @property
    def call_id(self) -> str:
        """The id of the call."""
        ...


under_way: Final[ContextVar[CallTrace | None]] = ContextVar("toolstile_otel", default=None)


@contextmanager
def ids_in_logs() -> Generator[None]:
    """Let all log records made within the block carry the ids of the current call.

    They are `otelTraceID`, `otelSpanID` and `otelTraceSampled`, as in the instrumentation of
    OpenTelemetry, and `toolstileCallID`. Outside of calls they are `0` and empty.
    """
    before = logging.getLogRecordFactory()
    factory = _Factory(before)
    logging.setLogRecordFactory(factory)
    try:
        yield
    finally:
        factory.active = False
        if logging.getLogRecordFactory() is factory:
            logging.setLogRecordFactory(before)


class _Factory:
    """Makes log records with ids; one that others have wrapped meanwhile is only switched off."""

    __slots__ = ("_make", "active")

    def __init__(self, make: Any) -> None:
        self._make = make
        self.active = True

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        if self.active:
            span = trace.get_current_span().get_span_context()
            valid, current = span.is_valid, under_way.get()
            record.otelTraceID = trace.format_trace_id(span.trace_id) if valid else "0"
            record.otelSpanID = trace.format_span_id(span.span_id) if valid else "0"
            record.otelTraceSampled = valid and span.trace_flags.sampled
            record.toolstileCallID = "" if current is None else current.call_id
        return record
