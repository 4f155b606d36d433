"""Where the example that comes with Toolyard is."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def example_plugin() -> Path:
    """Return the example's plugin, a single file."""
    return Path(str(files("toolyard") / "examples" / "orders.py"))


def example_session() -> tuple[str, str]:
    """Return the name and the text of the example's session."""
    session = files("toolyard") / "examples" / "session.jsonl"
    return session.name, session.read_text(encoding="utf-8")
