"""The record of a host, for plugins that have more to record than calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes lines into the record of a host; a resource, bound if the host records.

    Args:
        note: Writes a line of a kind, `approval` or `check`, with JSON fields. Raises `OSError` or
            `ToolstileError` if the line cannot be written.

    Example:
        >>> lines = []
        >>> Recorder(lambda kind, fields: lines.append((kind, fields))).note("check", {"by": "Ann"})
        >>> lines
        [('check', {'by': 'Ann'})]
    """

    note: Callable[[str, dict[str, Any]], None]
