"""The providers that an application has configured."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers of spans and metrics.

    Args:
        spans: Makes tracers.
        metrics: Makes meters, None where durations go nowhere.
    """

    spans: TracerProvider
    metrics: MeterProvider | None


def find_providers() -> Providers | None:
    """Return the providers that the application has configured, None without any."""
    spans = _configured("opentelemetry.trace", "get_tracer_provider")
    metrics = _configured("opentelemetry.metrics", "get_meter_provider")
    if spans is None and metrics is None:
        return None
    if spans is None:
        from opentelemetry.trace import NoOpTracerProvider

        spans = NoOpTracerProvider()
    return Providers(spans, metrics)


def is_real(provider: object) -> bool:
    """Tell whether a provider does anything; those of the interface itself do not."""
    home = type(provider).__module__
    return not home.startswith(("opentelemetry.trace", "opentelemetry.metrics"))


def _configured(module: str, getter: str) -> Any:
    # A configured provider implies an imported interface.
    interface = sys.modules.get(module)
    if interface is None:
        return None
    provider = getattr(interface, getter)()
    return provider if is_real(provider) else None
