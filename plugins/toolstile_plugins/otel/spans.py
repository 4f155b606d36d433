"""The span of a call: opened before anything else, closed when all is known."""

from __future__ import annotations

from contextvars import Token
from importlib.metadata import version
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from toolstile_hookspecs import Stage, ToolCall, ToolInvoked
from toolstile_hookspecs._schema.serialize import encodable
from toolstile_plugins.otel.attributes import CALL_ID, STAGE, error_type, of_event
from toolstile_plugins.otel.current_span import CallTrace, under_way
from toolstile_plugins.otel.propagation import NO_LINKS, ProcessTrace, parent_of

if TYPE_CHECKING:
    from toolstile_plugins.otel.plugin import CallTracing


NANOSECONDS: Final = 1_000_000_000


class CallSpan:
    """A context manager around a call.

    Args:
        tracing: What makes it.
        call: The call.
    """

    __slots__ = (
        "_began",
        "_known",
        "_outer",
        "_started",
        "_token",
        "_tracing",
        "call",
        "event",
        "span",
    )

    span: Span
    _token: Token[Context]
    _outer: Token[CallTrace | None]

    def __init__(self, tracing: CallTracing, call: ToolCall) -> None:
        self._tracing = tracing
        self._known = tracing.known(call.name)
        self.call = call
        self.event: ToolInvoked | None = None

    def __enter__(self) -> None:
        """Open the span and let it be the current one."""
        call, known = self.call, self._known
        context, links = parent_of(call) if call.meta else (None, NO_LINKS)
        self._started = started = time_ns()
        self._began = perf_counter_ns()
        self.span = span = self._tracing.tracer.start_span(
            known.span_name,
            context,
            attributes={**known.attributes, CALL_ID: encodable(call.id)},
            links=links,
            start_time=started,
        )
        self._outer = under_way.set(self)
        self._token = attach(set_span_in_context(span, context))

    def __exit__(self, *error: object) -> None:
        """Say what became of the call, and close the span."""
        taken = perf_counter_ns() - self._began
        event, span = self.event, self.span
        try:
            if event is not None:
                self._describe(span, event)
        finally:
            detach(self._token)
            under_way.reset(self._outer)
            span.end(self._started + taken)
        durations = self._tracing.durations
        if durations is not None and event is not None:
            durations.record(event, taken / NANOSECONDS)

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id

    def crossing(self) -> ProcessTrace:
        """Return what goes along into the process of an isolated handler."""
        tracing = self._tracing
        return ProcessTrace(self.span, self.call, tracing.where, logs=tracing.logs)

    def _describe(self, span: Span, event: ToolInvoked) -> None:
        known, tool = self._known, event.tool
        if tool is not None and tool is not known.tool:
            known = self._tracing.learn(self.call.name, tool)
            span.set_attributes(known.attributes)
            span.update_name(known.span_name)
        if not span.is_recording():
            return
        span.set_attributes(of_event(event, capture=self._tracing.capture))
        if not event.success and error_type(event) is not None:
            # The text is without secrets; that of the exception need not be.
            span.set_status(Status(StatusCode.ERROR, event.text))


# --- A span for every stage of a call, within the call's own


class StagedCallSpan(CallSpan):
    """The span of a call whose stages have spans of their own."""

    __slots__ = ("_stage",)

    _stage: Span | None

    def __enter__(self) -> None:
        """Open the call's span."""
        self._stage = None
        super().__enter__()

    def __exit__(self, *error: object) -> None:
        """Close the last stage's span, and the call's."""
        if self._stage is not None:
            self._stage.end(self._now())
        super().__exit__(*error)

    def stage(self, stage: Stage) -> None:
        """Close the span of the stage before, and open the next one's.

        It is not the current one: what handlers trace belongs to the call, with or without
        spans for stages.
        """
        now = self._now()
        if self._stage is not None:
            self._stage.end(now)
        self._stage = self._tracing.tracer.start_span(
            f"{STAGE} {stage.value}",
            set_span_in_context(self.span),
            attributes={STAGE: stage.value},
            start_time=now,
        )

    def _now(self) -> int:
        # By the clock that the call's end is told by; the system's may be set meanwhile.
        return self._started + perf_counter_ns() - self._began


# --- What our spans and metrics are known by


SCOPE: Final = "toolstile_plugins.otel"
VERSION: Final = version("toolstile")
