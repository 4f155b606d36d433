"""The duration of every call, as the conventions measure it."""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import MeterProvider

from toolstile_hookspecs import Status, ToolInvoked
from toolstile_plugins.otel.attributes import (
    ERROR_TYPE,
    FUNCTION,
    SCOPE,
    TOOL_NAME,
    TOOL_TYPE,
    VERSION,
    error_type,
)

NAME: Final = "gen_ai.execute_tool.duration"
UNIT: Final = "s"
DESCRIPTION: Final = "The duration of a single tool execution."
BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
"""Upper bounds in seconds, from 10 ms to 81.92 s."""
OTHER: Final = "_OTHER"
"""Stands for all names that no tool has: a model may make up any number of them."""


class Durations:
    """The histogram of all calls' durations.

    Args:
        provider: What makes it.
    """

    __slots__ = ("_histogram", "_of_tool")

    def __init__(self, provider: MeterProvider) -> None:
        meter = provider.get_meter(SCOPE, VERSION)
        self._histogram = meter.create_histogram(
            NAME,
            unit=UNIT,
            description=DESCRIPTION,
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._of_tool: dict[str, dict[str, str]] = {}

    def record(self, event: ToolInvoked, seconds: float) -> None:
        """Count a call that took so many seconds."""
        name = event.tool.name if event.tool is not None else OTHER
        attributes = self._of_tool.get(name)
        if attributes is None:
            attributes = self._of_tool[name] = {TOOL_NAME: name, TOOL_TYPE: FUNCTION}
        if event.status is not Status.SUCCEEDED and (error := error_type(event)) is not None:
            attributes = {**attributes, ERROR_TYPE: error}
        self._histogram.record(seconds, attributes)
