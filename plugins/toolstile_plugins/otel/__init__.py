"""OpenTelemetry: a span and a duration for every call, as the GenAI conventions say.

Settings, `[plugins.otel]`: see `OtelSettings`. `toolstile run --trace console|otlp|FILE` and
`toolstile call --trace ...` export the spans; so does the environment (`OTEL_TRACES_EXPORTER`,
`OTEL_EXPORTER_OTLP_ENDPOINT`). An application's own provider is used as soon as it is configured.
Without OpenTelemetry, nothing is imported and nothing is added to a call.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import Command, ConfigurationError, Diagnostic, HostHandle, hookimpl
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.command_options.otel import ARGUMENTS
from toolstile_plugins.directories import appended_finding
from toolstile_plugins.otel.settings import ENVIRONMENT, OtelSettings, names_file

__all__ = ["OtelSettings"]

_TRACE: Final = "plugins.otel.trace"
_ASKING: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Variables that say where telemetry goes, and so that it is wanted."""


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return OtelSettings


@hookimpl
def toolstile_diagnose(settings: OtelSettings) -> Iterator[Diagnostic]:
    """Find out whether spans can be exported to where the settings say; nothing is opened."""
    if settings.trace is None:
        return
    if names_file(settings.trace):
        yield appended_finding(Path(settings.trace), "spans", _TRACE)
        return
    from toolstile_plugins.otel.exporters import named  # late, as it imports the SDK

    try:
        exporters = named(settings.trace)
    except ConfigurationError as error:
        yield Diagnostic.error("spans", str(error), extra_remedy("otlp"))
        return
    names = ", ".join(exporters) or "none: the environment names none"
    yield Diagnostic.ok("spans", f"The exporters are there ({names}).")


@hookimpl
def toolstile_commands() -> list[Command]:
    """Let the commands that dispatch calls export their spans."""
    defaults = {_TRACE: ENVIRONMENT} if asked_for(os.environ) else {}
    dispatching = [
        Command(
            command,
            extends=True,
            optional=True,
            configure=configure,
            settings=_chosen,
            defaults=defaults,
        )
        for command, configure, _ in ARGUMENTS
    ]
    # They run beside a host, which alone writes its file of spans.
    untraced = ("tools", "prompt", "plugins", "console", "ledger", "policy", "replay")
    return [
        *dispatching,
        *(
            Command(name, extends=True, optional=True, settings=lambda _: {_TRACE: None})
            for name in untraced
        ),
    ]


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: OtelSettings) -> Generator[None]:
    """Trace the host's calls while it is open, where there is a provider to trace them with."""
    # A configured provider implies an imported interface; all else is imported late.
    if settings.trace is None and "opentelemetry" not in sys.modules:
        yield
        return
    from toolstile_plugins.otel.lifespan import open_providers

    with ExitStack() as stack:
        providers = stack.enter_context(open_providers(settings.trace))
        if providers is not None or settings.trace is None:
            from toolstile_plugins.otel.spans import traced

            stack.enter_context(traced(host, settings, providers))
        yield


def asked_for(environment: Mapping[str, str]) -> bool:
    """Tell whether the environment says where telemetry goes."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(environment.get(name, "").strip() for name in _ASKING)


def _chosen(args: argparse.Namespace) -> dict[str, Any]:
    return {} if args.trace is None else {_TRACE: args.trace}
