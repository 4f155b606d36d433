"""OpenTelemetry: a span and a duration for every call, as the GenAI conventions say.

Settings, `[plugins.otel]`: see `OtelSettings`. `toolyard run --trace console|otlp|FILE` and
`toolyard call --trace ...` export the spans; so does the environment (`OTEL_TRACES_EXPORTER`,
`OTEL_EXPORTER_OTLP_ENDPOINT`). In an application, the provider that it configures is used, from
then on. Where nobody uses OpenTelemetry, nothing is imported and nothing is added to a call.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager

from pydantic import BaseModel

from toolyard_hookspecs import Command, Finding, HostHandle, hookimpl
from toolyard_plugins.otel.options import trace_options
from toolyard_plugins.otel.settings import OtelSettings

__all__ = ["OtelSettings"]


@hookimpl
def toolyard_settings() -> type[BaseModel]:
    """Declare the settings."""
    return OtelSettings


@hookimpl
def toolyard_diagnose(settings: OtelSettings) -> Iterable[Finding]:
    """Find out whether spans can be exported to where the settings say."""
    from toolyard_plugins.otel.diagnosing import diagnosed  # only `toolyard doctor` asks

    return diagnosed(settings)


@hookimpl
def toolyard_commands() -> list[Command]:
    """Let the commands that dispatch calls export their spans."""
    return trace_options()


@hookimpl
@contextmanager
def toolyard_lifespan(host: HostHandle, settings: OtelSettings) -> Generator[None]:
    """Trace the host's calls while it is open, where there is a provider to trace them with."""
    # Whoever has configured a provider has imported the interface; all else is imported late.
    if settings.trace is None and "opentelemetry" not in sys.modules:
        yield
        return
    from toolyard_plugins.otel.providers import open_providers

    with ExitStack() as stack:
        providers = stack.enter_context(open_providers(settings.trace))
        if providers is not None:
            from toolyard_plugins.otel.tracing import traced

            stack.enter_context(traced(host, settings, providers))
        elif settings.trace is None:
            from toolyard_plugins.otel.awaiting import traced_when_configured

            stack.enter_context(traced_when_configured(host, settings))
        yield
