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
