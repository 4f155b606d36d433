"""A span for every stage of a call, within the call's own."""

from __future__ import annotations

from time import perf_counter_ns

from opentelemetry.trace import Span, set_span_in_context

from toolstile_hookspecs import Stage
from toolstile_plugins.otel.attributes import STAGE
from toolstile_plugins.otel.spans import CallSpan


class StagedCallSpan(CallSpan):
    """The span of a call whose stages have spans of their own."""

    __slots__ = ("_stage",)

    _stage: Span | None

    def __enter__(self) -> None:
        """Open the call's span."""
        self._stage = None
        super().__enter__()

    def __exit__(self, *error: object) -> None:
        """Close the last stage's span, and the call's."""
        if self._stage is not None:
            self._stage.end(self._now())
        super().__exit__(*error)

    def stage(self, stage: Stage) -> None:
        """Close the span of the stage before, and open the next one's.

        It is not the current one: what handlers trace belongs to the call, with or without
        spans for stages.
        """
        now = self._now()
        if self._stage is not None:
            self._stage.end(now)
        self._stage = self._tracing.tracer.start_span(
            f"{STAGE} {stage.value}",
            set_span_in_context(self.span),
            attributes={STAGE: stage.value},
            start_time=now,
        )

    def _now(self) -> int:
        # By the clock that the call's end is told by; the system's may be set meanwhile.
        return self._started + perf_counter_ns() - self._began
