"""The parent of a call's span: the current span, or the one that came with the call."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import context as otel_context, metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span

from toolstile_hookspecs import ToolCall
from toolstile_plugins.otel.current_span import ids_in_logs, under_way
from toolstile_plugins.otel.lifespan import open_providers
from toolstile_plugins.otel.providers import find_providers
from toolstile_plugins.otel.shutdown import ended, patience, started

log = logging.getLogger("toolstile.otel")

NO_LINKS: Final[tuple[Link, ...]] = ()


def parent_of(call: ToolCall) -> tuple[Context | None, tuple[Link, ...]]:
    """Return the parent context of a call's span, and its links.

    The trace context in the call's `meta` (`traceparent` and the like) is honoured. A current
    span of the same trace is nearer: a server's, or that of the calling call. The current span
    of another trace is linked.
    """
    if not call.meta:
        return None, NO_LINKS
    carrier = {name: value for name, value in call.meta.items() if isinstance(value, str)}
    try:
        context = propagate.extract(carrier, otel_context.get_current())
    except Exception:
        # A caller may send anything, and the call's span does not rest on it.
        log.debug("What came with call %s cannot be read.", call.id, exc_info=True)
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
    """The trace context that goes along into the process of an isolated handler.

    Args:
        carrier: The context of the call's span, as `propagate.inject` writes it.
        call_id: The id of the call.
        where: Where spans are exported to, None for wherever the handler's module does.
        logs: Whether records of logs carry the ids.
    """

    carrier: dict[str, str]
    call_id: str
    where: str | None
    logs: bool

    def __post_init__(self) -> None:
        self._stack: ExitStack | None = None

    @classmethod
    def of(cls, span: Span, call: ToolCall, where: str | None, *, logs: bool) -> ProcessTrace:
        """Return the trace that goes along with a call."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        return cls(carrier, str(call.id), where, logs)

    def __enter__(self) -> None:
        """Let the span be current; export as the parent does, unless the handler's module does."""
        with ExitStack() as stack:
            own = None
            if self.where is not None and find_providers() is None:
                own = stack.enter_context(open_providers(self.where))
            if own is None:
                # The process ends without the usual clean-up.
                stack.callback(_flush)
            token = otel_context.attach(propagate.extract(self.carrier))
            stack.callback(otel_context.detach, token)
            if self.logs:
                under_way.set(self)
                stack.enter_context(ids_in_logs())
            self._stack = stack.pop_all()

    def __exit__(self, *error: object) -> None:
        """Export what was traced here."""
        if self._stack is not None:
            self._stack.close()


def _flush() -> None:
    providers: tuple[Any, ...] = (trace.get_tracer_provider(), metrics.get_meter_provider())
    flushes = [provider.force_flush for provider in providers if hasattr(provider, "force_flush")]
    ended(started(flushes), patience())
