"""Registration of what traces calls, at once or when the application has a provider."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Final

from toolstile_hookspecs import HostHandle, ToolCall, ToolInvoked, hookimpl
from toolstile_plugins.otel.logs import ids_in_logs
from toolstile_plugins.otel.providers import Providers, find_providers
from toolstile_plugins.otel.settings import OtelSettings
from toolstile_plugins.otel.spans import CallSpan, CallTracing

NAME: Final = "otel-spans"


@contextmanager
def traced(host: HostHandle, settings: OtelSettings, providers: Providers) -> Generator[None]:
    """Trace the calls of a host within the block."""
    with ExitStack() as stack:
        if settings.logs:
            stack.enter_context(ids_in_logs())
        host.register(CallTracing(settings, providers), NAME)
        stack.callback(host.unregister, NAME)
        yield


<<<<<<< Updated upstream
=======
@dataclass(frozen=True, slots=True)
class Known:
    """The attributes of calls of one name that are known at their beginning.

    Args:
        tool: The tool that was found for the name last time, None where none was.
        span_name: The name of their spans.
        attributes: What their spans say of it.
    """

    tool: Tool[Any, Any] | None
    span_name: str
    attributes: Attributes


class CallTracing:
    """Opens a span for every call, and closes it with what its event says.

    Args:
        settings: The plugin's settings.
        providers: What makes spans and metrics.
    """

    def __init__(self, settings: OtelSettings, providers: Providers) -> None:
        self.tracer: Tracer = providers.spans.get_tracer(SCOPE, VERSION)
        self.durations = None if providers.metrics is None else Durations(providers.metrics)
        self.capture = settings.capture
        self.logs = settings.logs
        self.where = settings.trace
        self._kind = StagedCallSpan if settings.stages else CallSpan
        self._known: dict[str, Known] = {}

    @hookimpl
    def toolstile_trace(self, call: ToolCall) -> CallSpan:
        """Open the span."""
        return self._kind(self, call)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Hand the span what it will say."""
        span = under_way.get()
        if isinstance(span, CallSpan) and span.call_id == event.call_id:
            span.event = event

    def known(self, name: str) -> Known:
        """Return what is known of calls of a name."""
        found = self._known.get(name)
        # Names that no tool has are not kept: a model may make up any number of them.
        return Known(None, span_name(name), of_name(name)) if found is None else found

    def learn(self, name: str, tool: Tool[Any, Any]) -> Known:
        """Keep in mind which tool a name stands for, where it is one of the tool's own."""
        found = Known(tool, span_name(tool.name), of_tool(tool))
        if name in {tool.name, tool.wire_name}:
            self._known[name] = found
        return found


# --- Tracing that begins when the application configures a provider, while the host is open


>>>>>>> Stashed changes
@contextmanager
def traced_when_configured(host: HostHandle, settings: OtelSettings) -> Generator[None]:
    """Trace the calls of a host within the block, once there is something to trace them with."""
    with ExitStack() as stack:
        host.register(AwaitedTracing(settings, stack), NAME)
        stack.callback(host.unregister, NAME)
        yield


class AwaitedTracing:
    """Looks for a provider at each call, until there is one.

    Args:
        settings: The plugin's settings.
        stack: Ends what it has begun.
    """

    def __init__(self, settings: OtelSettings, stack: ExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self._lock = Lock()
        self._tracing: CallTracing | None = None

    @hookimpl
    def toolstile_trace(self, call: ToolCall) -> CallSpan | None:
        """Open the span, where there is a provider."""
        tracing = self._tracing or self._begin()
        return None if tracing is None else tracing.toolstile_trace(call)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Hand the span what it will say."""
        if self._tracing is not None:
            self._tracing.toolstile_telemetry(event)

    def _begin(self) -> CallTracing | None:
        providers = find_providers()
        if providers is None:
            return None
        with self._lock:
            if self._tracing is None:
                if self._settings.logs:
                    self._stack.enter_context(ids_in_logs())
                self._tracing = CallTracing(self._settings, providers)
            return self._tracing
