"""Prometheus metrics of calls: how many, how long, what was denied, rolled back or replayed.

Settings, `[plugins.prometheus]`: see `Settings`. Without a `port` nothing is counted or served.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from toolstile_hookspecs import HostHandle, hookimpl
from toolstile_prometheus.metrics import Metrics
from toolstile_prometheus.serving import served, written
from toolstile_prometheus.settings import Settings

__all__ = ["Metrics", "Settings", "toolstile_lifespan", "toolstile_settings"]

OBSERVER = "prometheus-metrics"


@hookimpl
def toolstile_settings() -> type[Settings]:
    """Declare what the table `[plugins.prometheus]` may hold."""
    return Settings


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: Settings) -> Generator[None]:
    """Count the host's calls while it is open, and serve what was counted."""
    if settings.port is None:
        yield
        return
    metrics = Metrics(buckets=settings.buckets, max_tools=settings.max_tools)
    with ExitStack() as stack:
        target = stack.enter_context(served(metrics.registry, settings.address, settings.port))
        if settings.targets_file is not None:
            stack.enter_context(written(settings.targets_file, target))
        host.register(metrics, OBSERVER)
        stack.callback(host.unregister, OBSERVER)
        yield
