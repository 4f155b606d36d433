"""Metrics of calls for Prometheus: their number, duration, denials and pending questions.

Settings, `[plugins.metrics]`: see `MetricsSettings`. Without a `port` nothing is counted. An
application can register `prometheus.CallMetrics` itself, and serve the metrics in its own route.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from toolstile_hookspecs import HostHandle, hookimpl
from toolstile_plugins.cli_support import needing

OBSERVER: Final = "metrics_of_calls"


class MetricsSettings(BaseModel):
    """The settings of metrics.

    Args:
        port: The port on which they are served, at `/metrics`; without it nothing is counted.
        address: The address of the server, which has no access control.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    address: str = "127.0.0.1"


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return MetricsSettings


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: MetricsSettings) -> Generator[None]:
    """Count the calls of a host that serves while it is open, and serve the counts."""
    if settings.port is None or host.purpose != "serve":
        yield
        return
    with needing("[plugins.metrics] needs prometheus-client.", "observability"):
        from toolstile_plugins.metrics.prometheus import CallMetrics
    metrics = CallMetrics()
    with metrics.served(settings.address, settings.port), metrics.toolstile_lifespan(host):
        host.register(metrics, OBSERVER)
        try:
            yield
        finally:
            host.unregister(OBSERVER)
