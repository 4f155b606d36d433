"""The current span: the trace of the innermost call, on any thread or task."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol


class CallTrace(Protocol):
    """The trace of a call."""

    @property
    def call_id(self) -> str:
        """The id of the call."""
        ...


under_way: Final[ContextVar[CallTrace | None]] = ContextVar("toolstile_otel", default=None)
