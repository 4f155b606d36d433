"""The span and duration of a call, from its beginning to its event."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import Token
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter_ns, time_ns
from typing import Any, Final
from weakref import WeakKeyDictionary

from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Meter, NoOpMeterProvider
from opentelemetry.trace import Span, Status as SpanStatus, StatusCode, Tracer, set_span_in_context

from toolstile_hookspecs import (
    HostHandle,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolInvoked,
    TransactionEnded,
    TransactionStatus,
    hookimpl,
)
from toolstile_hookspecs.codecs import encodable
from toolstile_plugins.otel.attributes import (
    CALL_ID,
    CONVERSATION_ID,
    ERROR_TYPE,
    FUNCTION,
    OWN_CALL_ID,
    SCOPE,
    STAGE,
    TOOL_NAME,
    TOOL_TYPE,
    TRANSACTION,
    VERSION,
    Attributes,
    error_type,
    of_event,
    of_name,
    of_tool,
    of_transaction,
    span_name,
)
from toolstile_plugins.otel.propagation import (
    NO_LINKS,
    CallTrace,
    ProcessTrace,
    ids_in_logs,
    parent_of,
    under_way,
)
from toolstile_plugins.otel.providers import Providers, find_providers
from toolstile_plugins.otel.settings import OtelSettings

DURATION: Final = "gen_ai.execute_tool.duration"
DESCRIPTION: Final = "The duration of a single tool execution."
BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
"""Upper bounds in seconds, from 10 ms to 81.92 s."""
OTHER: Final = "_OTHER"
"""The name for all unknown tools: a model may make up any number of names."""


class Durations:
    """The histogram of all calls' durations."""

    __slots__ = ("_histogram", "_of_tool")

    def __init__(self, meter: Meter) -> None:
        self._histogram = meter.create_histogram(
            DURATION,
            unit="s",
            description=DESCRIPTION,
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._of_tool: dict[str, dict[str, str]] = {}

    def record(self, event: ToolInvoked, seconds: float) -> None:
        """Count a call of this duration."""
        name = event.tool.name if event.tool is not None else OTHER
        attributes = self._of_tool.get(name)
        if attributes is None:
            attributes = self._of_tool[name] = {TOOL_NAME: name, TOOL_TYPE: FUNCTION}
        if event.status is not Status.SUCCEEDED and (error := error_type(event)) is not None:
            attributes = {**attributes, ERROR_TYPE: error}
        self._histogram.record(seconds, attributes)


NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """The attributes of calls of one name that are known at their beginning."""

    tool: Tool[Any, Any] | None  # the tool that was found for the name last time, if any
    span_name: str
    attributes: Attributes


class CallSpan:
    """A context manager around a call."""

    __slots__ = (
        *("_began", "_known", "_outer", "_started", "_token", "_tracing"),
        *("call", "event", "span"),
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
        call, known = self.call, self._known
        context, links = parent_of(call) if call.meta else (None, NO_LINKS)
        self._started = started = time_ns()
        self._began = perf_counter_ns()
        ids = {CALL_ID: encodable(call.wire_id), OWN_CALL_ID: encodable(call.id)}
        self.span = span = self._tracing.tracer.start_span(
            known.span_name,
            context,
            attributes={**known.attributes, **ids},
            links=links,
            start_time=started,
        )
        self._outer = under_way.set(self)
        self._token = attach(set_span_in_context(span, context))

    def __exit__(self, *error: object) -> None:
        taken = perf_counter_ns() - self._began
        event, span, tracing = self.event, self.span, self._tracing
        try:
            if event is not None:
                known, tool = self._known, event.tool
                if tool is not None and tool is not known.tool:
                    known = tracing.learn(self.call.name, tool)
                    span.set_attributes(known.attributes)
                    span.update_name(known.span_name)
                if span.is_recording():
                    span.set_attributes(of_event(event, capture=tracing.capture))
                    if not event.success and error_type(event) is not None:
                        # The text is without secrets; that of the exception need not be.
                        span.set_status(SpanStatus(StatusCode.ERROR, event.text))
        finally:
            detach(self._token)
            under_way.reset(self._outer)
            span.end(self._started + taken)
        if tracing.durations is not None and event is not None:
            tracing.durations.record(event, taken / NANOSECONDS)

    @property
    def call_id(self) -> str:
        """The id of the call."""
        return self.call.id

    def crossing(self) -> ProcessTrace:
        """Return the trace for the process of an isolated handler."""
        tracing = self._tracing
        return ProcessTrace.of(self.span, self.call, tracing.where, logs=tracing.logs)


class StagedCallSpan(CallSpan):
    """The span of a call whose stages have spans, too."""

    __slots__ = ("_stages",)

    def __enter__(self) -> None:
        self._stages: list[tuple[Span, int]] = []
        super().__enter__()

    def __exit__(self, *error: object) -> None:
        ends = [*(began for _, began in self._stages[1:]), self._now()]
        for (span, _), end in zip(self._stages, ends, strict=False):
            # Because only the event names the session, no stage's span ends before the call.
            if self.event is not None:
                span.set_attribute(CONVERSATION_ID, encodable(self.event.session_id))
            span.end(end)
        super().__exit__(*error)

    def stage(self, stage: Stage) -> None:
        """Open the span of a stage, which is the end of the stage before.

        It is not the current one: spans of handlers belong to the call itself.
        """
        now = self._now()
        span = self._tracing.tracer.start_span(
            f"{STAGE} {stage.value}",
            set_span_in_context(self.span),
            attributes={STAGE: stage.value},
            start_time=now,
        )
        self._stages.append((span, now))

    def _now(self) -> int:
        # By the clock of the call's end; the system's clock may be set meanwhile.
        return self._started + perf_counter_ns() - self._began


class CallTracing:
    """Opens a span for every call, and closes it with the attributes of its event."""

    def __init__(self, settings: OtelSettings, providers: Providers) -> None:
        self.tracer: Tracer = providers.spans.get_tracer(SCOPE, VERSION)
        self.meter = (providers.metrics or NoOpMeterProvider()).get_meter(SCOPE, VERSION)
        self.durations = None if providers.metrics is None else Durations(self.meter)
        self.capture = settings.capture
        self.logs = settings.logs
        self.where = settings.trace
        self._span_type = StagedCallSpan if settings.stages else CallSpan
        self._known: dict[str, Known] = {}

    @hookimpl
    def toolstile_trace(self, call: ToolCall) -> CallSpan:
        """Open the span."""
        return self._span_type(self, call)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Hand the event to the span."""
        span = under_way.get()
        if isinstance(span, CallSpan) and span.call_id == event.call_id:
            span.event = event

    @hookimpl
    def toolstile_transaction(self, event: TransactionEnded) -> None:
        """Export a span from the beginning of a transaction to its end."""
        began = round(event.timestamp.timestamp() * NANOSECONDS)
        made = of_transaction(event)
        span = self.tracer.start_span(TRANSACTION, attributes=made, start_time=began)
        if event.status in {TransactionStatus.CONFLICT, TransactionStatus.UNKNOWN}:
            span.set_status(SpanStatus(StatusCode.ERROR, event.reason))
        span.end(began + round(event.duration * NANOSECONDS))

    def known(self, name: str) -> Known:
        """Return the known attributes of calls of a name."""
        found = self._known.get(name)
        # Names of unknown tools are not kept: a model may make up any number of them.
        return Known(None, span_name(name), of_name(name)) if found is None else found

    def learn(self, name: str, tool: Tool[Any, Any]) -> Known:
        """Remember the tool of a name, if it is one of the tool's names."""
        found = Known(tool, span_name(tool.name), of_tool(tool))
        if name in {tool.name, tool.wire_name}:
            self._known[name] = found
        return found


NAME: Final = "otel-spans"


@contextmanager
def traced(
    host: HostHandle, settings: OtelSettings, providers: Providers | None
) -> Generator[None]:
    """Trace the calls of a host within the block; without providers, once some are configured."""
    with ExitStack() as stack:
        if providers is not None and settings.logs:
            stack.enter_context(ids_in_logs())
        tracing = (
            AwaitedTracing(settings, stack)
            if providers is None
            else CallTracing(settings, providers)
        )
        host.register(tracing, NAME)
        stack.callback(host.unregister, NAME)
        _of_hosts[host] = tracing
        yield


@dataclass(eq=False)
class AwaitedTracing:
    """Looks for a provider at each call, until one is configured."""

    _settings: OtelSettings
    _stack: ExitStack
    _lock: Lock = field(default_factory=Lock)
    _tracing: CallTracing | None = None

    @hookimpl
    def toolstile_trace(self, call: ToolCall) -> CallSpan | None:
        """Open the span, if a provider is configured."""
        tracing = self.begun()
        return None if tracing is None else tracing.toolstile_trace(call)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Hand the event to the span."""
        if self._tracing is not None:
            self._tracing.toolstile_telemetry(event)

    @hookimpl
    def toolstile_transaction(self, event: TransactionEnded) -> None:
        """Export the span of a transaction."""
        if self._tracing is not None:
            self._tracing.toolstile_transaction(event)

    def begun(self) -> CallTracing | None:
        """Return the tracing, None without a provider."""
        if self._tracing is not None:
            return self._tracing
        providers = find_providers()
        if providers is None:
            return None
        with self._lock:
            if self._tracing is None:
                if self._settings.logs:
                    self._stack.enter_context(ids_in_logs())
                self._tracing = CallTracing(self._settings, providers)
            return self._tracing


_of_hosts: WeakKeyDictionary[HostHandle, CallTracing | AwaitedTracing] = WeakKeyDictionary()


def tracing_of(host: HostHandle) -> CallTracing | None:
    """Return the tracing of a host's calls, None without a provider.

    Plugins make their spans with its tracer, and capture content if it does.
    """
    tracing = _of_hosts.get(host)
    return tracing.begun() if isinstance(tracing, AwaitedTracing) else tracing
