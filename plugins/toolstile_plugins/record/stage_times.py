"""The times at which a call entered its stages, and the trace that it belongs to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Any, Final

from toolstile_hookspecs import Stage


class StageTimes:
    """The trace of a call that notes when each of its stages began.

    Args:
        monotonic: Returns the time.
    """

    __slots__ = ("_began", "_entered", "_monotonic", "_outer")

    _outer: Token[StageTimes | None]

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._entered: list[tuple[Stage, float]] = []

    def __enter__(self) -> None:
        self._outer = _current.set(self)
        self._began = self._monotonic()

    def __exit__(self, *error: object) -> None:
        _current.reset(self._outer)

    def stage(self, stage: Stage) -> None:
        """Note that a stage begins."""
        self._entered.append((stage, self._monotonic()))

    def json(self) -> str:
        """Return the stages as JSON, each with the seconds since the call began."""
        began = self._began
        form = _form_of(tuple([stage for stage, _ in self._entered]))
        return form % tuple([at - began for _, at in self._entered])


@lru_cache(maxsize=64)
def _form_of(stages: tuple[Stage, ...]) -> str:
    """Return the JSON of stages with a place for each time; most calls pass the same stages."""
    pairs = [f'["{stage}",%.6f]' for stage in stages]
    return f"[{','.join(pairs)}]"


_current: Final[ContextVar[StageTimes | None]] = ContextVar("toolstile_record", default=None)


def tracing_fields() -> list[str]:
    """Return what a call's trace tells of it, as fields of its line."""
    fields: list[str] = []
    if (times := _current.get()) is not None:
        fields.append(f'"stages":{times.json()}')
    if (trace := _trace_id()) is not None:
        fields.append(f'"trace":"{trace}"')
    return fields


def _trace_id() -> str | None:
    """Return the id of the current trace, whoever made it; None where nothing is traced."""
    # Where nobody has imported it, there is no trace.
    tracing: Any = sys.modules.get("opentelemetry.trace")
    if tracing is None:
        return None
    span = tracing.get_current_span().get_span_context()
    return tracing.format_trace_id(span.trace_id) if span.is_valid else None
