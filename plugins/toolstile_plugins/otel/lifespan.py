"""The providers that calls are traced with: our own, or those of the application."""

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
    """Give the providers that calls are traced with, None without any.

    Args:
        trace: Where spans go, see `OtelSettings`; None for wherever the application sends them.

    Raises:
        ConfigurationError: When an exporter cannot be used. Where only the environment asks,
            which may be meant for other programs, that is logged.
    """
    if trace is None:
        yield find_providers()
        return
    with ExitStack() as stack:
        try:
            # Late, as it imports the SDK.
            from toolstile_plugins.otel.exporters import exporting

            # Whatever traces imports it, and it does not bear what OTEL_PROPAGATORS may name.
            importlib.import_module("opentelemetry.propagate")
            providers: Providers | None = stack.enter_context(exporting(trace))
        except Exception as error:
            failure = _failure_of(error)
            if trace != ENVIRONMENT:
                raise failure from error
            log.warning("%s The OTEL_* variables are left alone.", failure)
            providers = find_providers()
        yield providers


def _failure_of(error: Exception) -> ConfigurationError:
    if isinstance(error, ConfigurationError):
        return error
    # What OpenTelemetry raises where a variable says what it cannot use.
    reason = str(error).rstrip(".")
    return ConfigurationError(
        f"Telemetry cannot be exported: {reason}. Fix the OTEL_* variable that says so, or unset "
        "it."
    )
