"""OpenTelemetry: a span and a duration for every call, as the GenAI conventions say.

Settings, `[plugins.otel]`: see `OtelSettings`. `toolstile run --trace console|otlp|FILE` and
`toolstile call --trace ...` export the spans; so does the environment (`OTEL_TRACES_EXPORTER`,
`OTEL_EXPORTER_OTLP_ENDPOINT`). In an application, the provider that it configures is used, from
then on. Where nobody uses OpenTelemetry, nothing is imported and nothing is added to a call.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager

from pydantic import BaseModel

from toolstile_hookspecs import Command, Finding, HostHandle, hookimpl
from toolstile_plugins.otel.options import trace_options
from toolstile_plugins.otel.settings import OtelSettings

__all__ = ["OtelSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return OtelSettings


@hookimpl
def toolstile_diagnose(settings: OtelSettings) -> Iterable[Finding]:
    """Find out whether spans can be exported to where the settings say."""
    from toolstile_plugins.otel.doctor import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Let the commands that dispatch calls export their spans."""
    return trace_options()


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: OtelSettings) -> Generator[None]:
    """Trace the host's calls while it is open, where there is a provider to trace them with."""
    # Whoever has configured a provider has imported the interface; all else is imported late.
    if settings.trace is None and "opentelemetry" not in sys.modules:
        yield
        return
    from toolstile_plugins.otel.lifespan import open_providers

    with ExitStack() as stack:
        providers = stack.enter_context(open_providers(settings.trace))
        if providers is not None:
            from toolstile_plugins.otel.plugin import traced

            stack.enter_context(traced(host, settings, providers))
        elif settings.trace is None:
            from toolstile_plugins.otel.plugin import traced_when_configured

            stack.enter_context(traced_when_configured(host, settings))
        yield
