"""What goes wrong with records, as people are told."""

from __future__ import annotations

from toolyard_hookspecs import ToolyardError


class RecordError(ToolyardError):
    """A record cannot be written, continued or read; names the file, the cause and the remedy."""
