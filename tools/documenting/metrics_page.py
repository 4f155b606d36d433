"""The reference of the metrics, from the tables of the plugins that measure."""

from __future__ import annotations

from documenting.pages import Page
from toolstile_plugins.agent import spans as of_agents
from toolstile_plugins.metrics import prometheus
from toolstile_plugins.otel import spans as of_calls

_INTRO = """\
Two plugins measure calls: `metrics` for Prometheus, and `otel` for OpenTelemetry.
[Trace and measure calls](../how-to/observability.md) shows how to configure them. The names and
labels are as stable as the contract."""

_OTEL = """\
The semantic conventions for generative AI define these names. Calls of names that no tool has are
counted as `_OTHER`."""


def metrics_page() -> Page:
    """Write the page."""
    page = Page("Metrics")
    page.add(_INTRO)
    page.heading(2, "Prometheus")
    rows = [
        (f"`toolstile_{name}_total`", "counter", labels, text)
        for name, (text, labels) in prometheus.COUNTERS.items()
    ]
    duration, waiting = prometheus.DURATION, prometheus.WAITING
    rows.append((f"`toolstile_{duration[0]}`", "histogram", ("tool",), duration[1]))
    rows.append((f"`toolstile_{waiting[0]}`", "gauge", ("tool",), waiting[1]))
    page.table(
        ("metric", "type", "labels", "meaning"),
        (
            (name, kind, ", ".join(f"`{each}`" for each in labels), page.says(name, text))
            for name, kind, labels, text in rows
        ),
    )
    used = {label for _, _, labels, _ in rows for label in labels}
    page.table(
        ("label", "values"),
        (
            (f"`{label}`", page.says(label, prometheus.LABELS.get(label)))
            for label in sorted(used | set(prometheus.LABELS))
        ),
    )
    page.heading(2, "OpenTelemetry")
    page.add(_OTEL)
    measured = {of_calls.DURATION: ("s", of_calls.BUCKETS, of_calls.DESCRIPTION)}
    measured |= {f"gen_ai.{name}": of_run for name, of_run in of_agents.METRICS.items()}
    page.table(
        ("histogram", "unit", "meaning"),
        (
            (f"`{name}`", f"`{unit}`", page.says(name, text))
            for name, (unit, _, text) in measured.items()
        ),
    )
    return page
