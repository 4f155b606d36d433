"""Diagnosis of the export of spans, for `toolstile doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from toolstile_hookspecs import ConfigurationError, Finding
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.directories import appended_finding
from toolstile_plugins.otel.settings import OtelSettings, names_file

SUBJECT: Final = "spans"


def diagnosed(settings: OtelSettings) -> Iterator[Finding]:
    """Yield what is the case with where spans go; nothing is opened, and nobody asked."""
    if settings.trace is None:
        return
    if names_file(settings.trace):
        yield appended_finding(Path(settings.trace), SUBJECT, "plugins.otel.trace")
        return
    from toolstile_plugins.otel.exporters import named  # late, as it imports the SDK

    try:
        exporters = named(settings.trace)
    except ConfigurationError as error:
        yield Finding.error(SUBJECT, str(error), extra_remedy("otlp"))
        return
    told = ", ".join(exporters) or "none: the environment names none"
    yield Finding.ok(SUBJECT, f"What exports them is there ({told}).")
