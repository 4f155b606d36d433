"""OpenTelemetry: a span and a duration for every call, as the GenAI conventions say.

Settings, `[plugins.otel]`: see `OtelSettings`. `toolstile run --trace console|otlp|FILE` and
`toolstile call --trace ...` export the spans; so does the environment (`OTEL_TRACES_EXPORTER`,
`OTEL_EXPORTER_OTLP_ENDPOINT`). The plugin uses an application's provider once it is configured.
Without OpenTelemetry, nothing is imported and nothing is added to a call.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import BaseModel

from toolstile_hookspecs import Command, ConfigurationError, Diagnostic, HostHandle, hookimpl
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.directories import appended_finding
from toolstile_plugins.otel import cli
from toolstile_plugins.otel.lifespan import open_providers
from toolstile_plugins.otel.settings import OtelSettings, names_file

__all__ = ["OtelSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return OtelSettings


@hookimpl
def toolstile_diagnose(settings: OtelSettings) -> Iterator[Diagnostic]:
    """Report whether the configured export of spans is possible; nothing is opened."""
    if settings.trace is None:
        return
    if names_file(settings.trace):
        yield appended_finding(Path(settings.trace), "spans", cli.TRACE)
        return
    from toolstile_plugins.otel.exporters import named  # late, as it imports the SDK

    try:
        exporters = named(settings.trace)
    except ConfigurationError as error:
        yield Diagnostic.error("spans", str(error), extra_remedy("observability"))
        return
    names = ", ".join(exporters) or "none: the environment names none"
    yield Diagnostic.ok("spans", f"The exporters are installed ({names}).")


@hookimpl
def toolstile_commands() -> list[Command]:
    """Let the commands that dispatch calls export their spans."""
    return cli.commands(Command)


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: OtelSettings) -> Generator[None]:
    """Trace the host's calls while it is open, if a provider is configured."""
    # A configured provider implies an imported interface; all else is imported late.
    if settings.trace is None and "opentelemetry" not in sys.modules:
        yield
        return
    with ExitStack() as stack:
        providers = stack.enter_context(open_providers(settings.trace))
        if providers is not None or settings.trace is None:
            from toolstile_plugins.otel.spans import traced

            stack.enter_context(traced(host, settings, providers))
        yield
