"""What goes wrong with records, as people are told."""

from __future__ import annotations

from toolstile_hookspecs import ToolstileError


class RecordError(ToolstileError):
    """A record cannot be written, continued or read; names the file, the cause and the remedy."""
