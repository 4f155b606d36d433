"""The providers that an application has configured."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


_IN_ENVIRONMENT: Final = not {
    "OTEL_PYTHON_METER_PROVIDER",
    "OTEL_PYTHON_TRACER_PROVIDER",
}.isdisjoint(os.environ)
"""True if the environment names providers, which a getter loads at its first call."""


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers of spans and metrics."""

    spans: TracerProvider
    metrics: MeterProvider | None  # None to drop durations


def find_providers() -> Providers | None:
    """Return the providers that the application has configured, or None."""
    spans = _configured("opentelemetry.trace", "get_tracer_provider", "_TRACER_PROVIDER")
    metrics = _configured("opentelemetry.metrics", "get_meter_provider", "_METER_PROVIDER")
    if spans is None and metrics is None:
        return None
    if spans is None:
        from opentelemetry.trace import NoOpTracerProvider

        spans = NoOpTracerProvider()
    return Providers(spans, metrics)


def is_real(provider: object) -> bool:
    """Return whether a provider does anything; the providers of the interface do not."""
    home = type(provider).__module__
    return not home.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _configured(module: str, getter: str, kept: str) -> Any:
    # A configured provider implies an imported interface.
    interface = sys.modules.get(module)
    if interface is None:
        return None
    get = getattr(interface, getter)
    # The getter would look into the environment at each call.
    if not _IN_ENVIRONMENT and getattr(get, "__globals__", {}).get(kept, get) is None:
        return None
    provider = get()
    return provider if is_real(provider) else None
