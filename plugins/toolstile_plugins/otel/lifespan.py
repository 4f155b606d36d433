"""The providers that trace the calls: ours, or the application's."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.otel.cli import ENVIRONMENT
from toolstile_plugins.otel.providers import Providers, find_providers

log = logging.getLogger("toolstile.otel")


@contextmanager
def open_providers(trace: str | None) -> Generator[Providers | None]:
    """Give the providers for a place of spans, see `OtelSettings`; for None, the application's.

    An exporter that cannot be used is a `ConfigurationError`. If only the environment asks, which
    may be meant for other programs, the fault is logged.
    """
    if trace is None:
        yield find_providers()
        return
    with ExitStack() as stack:
        try:
            # Late, as it imports the SDK.
            from toolstile_plugins.otel.exporters import exporting

            # All tracing imports it, and the import fails for a wrong name in OTEL_PROPAGATORS.
            importlib.import_module("opentelemetry.propagate")
            providers: Providers | None = stack.enter_context(exporting(trace))
        except Exception as error:
            failure = error
            if not isinstance(error, ConfigurationError):  # such as one about a variable
                failure = ConfigurationError(
                    f"Telemetry cannot be exported: {str(error).rstrip('.')}. Fix the OTEL_* "
                    "variable that says so, or unset it."
                )
            if trace != ENVIRONMENT:
                raise failure from error
            log.warning("%s The OTEL_* variables are left alone.", failure)
            providers = find_providers()
        yield providers
