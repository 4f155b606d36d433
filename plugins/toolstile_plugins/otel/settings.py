"""The settings of tracing, the table `[plugins.otel]`."""

from __future__ import annotations

import os
from typing import Annotated, Final

from pydantic import BaseModel, Field, StringConstraints

from toolstile_plugins.otel.cli import ENVIRONMENT

CONSOLE: Final = "console"
OTLP: Final = "otlp"

CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable of the conventions that opts in to arguments and results."""
_CAPTURING: Final = frozenset({"true", "span_only", "span_and_event"})


def names_file(trace: str) -> bool:
    """Return whether spans go to a file of that name."""
    return trace not in {CONSOLE, OTLP, ENVIRONMENT}


class OtelSettings(BaseModel):
    """The plugin's table in the configuration.

    Args:
        trace: The place for spans: `console` (standard error), `otlp` (OTLP over HTTP, together
            with metrics), `env` (as the `OTEL_*` variables say), or a file. A file gets one JSON
            object per line. Without it, spans go to the application's provider, if it has one.
        capture: Whether spans carry arguments and results, secrets masked. By default as
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, else not.
        stages: Whether every stage of a call has a span, within that of the call.
        logs: Whether log records made within a call carry the ids of its trace, span and call.
    """

    trace: Annotated[str, StringConstraints(min_length=1)] | None = None
    capture: bool = Field(
        default_factory=lambda: os.environ.get(CAPTURE_VARIABLE, "").lower() in _CAPTURING
    )
    stages: bool = False
    logs: bool = True
