"""Where the example that comes with Toolyard is."""

from __future__ import annotations

from pathlib import Path


def example_plugin() -> Path:
    """Return the example's plugin, a single file."""
    return _folder() / "orders.py"


def example_session() -> tuple[str, str]:
    """Return the name and the text of the example's session."""
    session = _folder() / "session.jsonl"
    return session.name, session.read_text(encoding="utf-8")


def _folder() -> Path:
    from importlib.resources import files  # no other command has to wait for it

    return Path(str(files("toolyard"))) / "examples"
