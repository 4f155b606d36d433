"""Configuration: where it is found, what overrides it, and how its faults are told."""

from __future__ import annotations

from toolyard.settings.loading import load
from toolyard.settings.model import Settings
from toolyard.settings.tables import validate_table

__all__ = ["Settings", "load", "validate_table"]
