"""The current span, in logs and isolated processes, and the parent of a call's span."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from opentelemetry import context as otel_context, metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span

from toolstile_hookspecs import ToolCall
from toolstile_plugins.otel.lifespan import open_providers
from toolstile_plugins.otel.providers import find_providers
from toolstile_plugins.otel.shutdown import ended, patience, started


class CallTrace(Protocol):
    """The trace of a call."""

    @property
    def call_id(self) -> str:
        """The id of the call."""
        ...


under_way: Final[ContextVar[CallTrace | None]] = ContextVar("toolstile_otel", default=None)


@contextmanager
def ids_in_logs() -> Generator[None]:
    """Add the ids of the current call to all log records within the block.

    They are `otelTraceID`, `otelSpanID` and `otelTraceSampled`, as in the instrumentation of
    OpenTelemetry, and `toolstileCallID`. Outside of calls they are `0` and empty.
    """
    before = logging.getLogRecordFactory()
    is_active = True

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = before(*args, **kwargs)
        if is_active:
            span = trace.get_current_span().get_span_context()
            valid, current = span.is_valid, under_way.get()
            record.otelTraceID = trace.format_trace_id(span.trace_id) if valid else "0"
            record.otelSpanID = trace.format_span_id(span.span_id) if valid else "0"
            record.otelTraceSampled = valid and span.trace_flags.sampled
            record.toolstileCallID = "" if current is None else current.call_id
        return record

    logging.setLogRecordFactory(made)
    try:
        yield
    finally:
        # If another factory wraps this one meanwhile, it is only switched off.
        is_active = False
        if logging.getLogRecordFactory() is made:
            logging.setLogRecordFactory(before)


log = logging.getLogger("toolstile.otel")

NO_LINKS: Final[tuple[Link, ...]] = ()


def parent_of(call: ToolCall) -> tuple[Context | None, tuple[Link, ...]]:
    """Return the parent context of a call's span, and its links.

    The parent is the trace context in the call's `meta` (`traceparent` and the like), or the
    current span of the same trace, such as a server's or the calling call's, which is nearer. The
    current span of another trace is linked.
    """
    if not call.meta:
        return None, NO_LINKS
    carrier = {name: value for name, value in call.meta.items() if isinstance(value, str)}
    try:
        context = propagate.extract(carrier, otel_context.get_current())
    except Exception:
        # A caller may send anything, and the call's span does not depend on it.
        log.debug("The trace context of call %s cannot be read.", call.id, exc_info=True)
        return None, NO_LINKS
    here = trace.get_current_span()
    local = here.get_span_context()
    remote = trace.get_current_span(context).get_span_context()
    if not local.is_valid or local == remote:
        return context, NO_LINKS
    if local.trace_id == remote.trace_id:
        return trace.set_span_in_context(here, context), NO_LINKS
    return context, (Link(local),)


@dataclass
class ProcessTrace:
    """The trace context for the process of an isolated handler."""

    carrier: dict[str, str]
    call_id: str
    where: str | None  # the place for spans, None if the handler's module configures it
    logs: bool  # true if log records carry the ids

    def __post_init__(self) -> None:
        self._stack: ExitStack | None = None

    @classmethod
    def of(cls, span: Span, call: ToolCall, where: str | None, *, logs: bool) -> ProcessTrace:
        """Return the trace context of a call."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        return cls(carrier, str(call.id), where, logs)

    def __enter__(self) -> None:
        """Make the span current; export as the parent does, unless the handler's module does."""
        with ExitStack() as stack:
            own = None
            if self.where is not None and find_providers() is None:
                own = stack.enter_context(open_providers(self.where))
            if own is None:

                def flush() -> None:
                    providers: Any = trace.get_tracer_provider(), metrics.get_meter_provider()
                    flushes = [getattr(each, "force_flush", None) for each in providers]
                    ended(started([each for each in flushes if each is not None]), patience())

                # The process ends without the usual clean-up.
                stack.callback(flush)
            token = otel_context.attach(propagate.extract(self.carrier))
            stack.callback(otel_context.detach, token)
            if self.logs:
                under_way.set(self)
                stack.enter_context(ids_in_logs())
            self._stack = stack.pop_all()

    def __exit__(self, *error: object) -> None:
        if self._stack is not None:
            self._stack.close()
