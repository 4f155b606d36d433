"""Where spans and metrics go: to the providers that the application has, or to our own.

OpenTelemetry is imported only where its providers are made, or are there already.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.otel.settings import ENVIRONMENT

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Providers:
    """What spans and metrics are made with.

    Args:
        spans: Makes tracers.
        metrics: Makes meters, None where durations go nowhere.
    """

    spans: TracerProvider
    metrics: MeterProvider | None


@contextmanager
def open_providers(trace: str | None) -> Generator[Providers | None]:
    """Give the providers that calls are traced with, None without any.

    Args:
        trace: Where spans go, see `OtelSettings`; None for wherever the application sends them.

    Raises:
        ConfigurationError: When what it takes is not installed, or cannot be had. Where only the
            environment asks, which may be meant for others, that is logged.
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
            told = _told(error)
            if trace != ENVIRONMENT:
                raise told from error
            log.warning("%s The OTEL_* variables are left alone.", told)
            providers = find_providers()
        yield providers


def _told(error: Exception) -> ConfigurationError:
    if isinstance(error, ConfigurationError):
        return error
    # What OpenTelemetry raises where a variable says what it cannot use.
    reason = str(error).rstrip(".")
    return ConfigurationError(
        f"Telemetry cannot be exported: {reason}. Mend the OTEL_* variable that says so, or unset "
        "it."
    )


def find_providers() -> Providers | None:
    """Return the providers that the application has configured, None without any."""
    spans = _configured("opentelemetry.trace", "get_tracer_provider")
    metrics = _configured("opentelemetry.metrics", "get_meter_provider")
    if spans is None and metrics is None:
        return None
    return Providers(spans or _no_spans(), metrics)


def is_real(provider: object) -> bool:
    """Tell whether a provider does anything; those of the interface itself do not."""
    home = type(provider).__module__
    return not home.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _configured(module: str, getter: str) -> Any:
    # Whoever has configured a provider has imported the interface.
    interface = sys.modules.get(module)
    if interface is None:
        return None
    provider = getattr(interface, getter)()
    return provider if is_real(provider) else None


def _no_spans() -> TracerProvider:
    from opentelemetry.trace import NoOpTracerProvider

    return NoOpTracerProvider()
