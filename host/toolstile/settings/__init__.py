"""Configuration: the search for its file, the variables that override it, and its faults."""

from __future__ import annotations

from toolstile.settings.model import Settings, checked_seconds
from toolstile.settings.sources import load
from toolstile.settings.table_validation import validate_table

__all__ = ["Settings", "checked_seconds", "load", "validate_table"]
