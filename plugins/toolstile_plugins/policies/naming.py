"""Which tools a policy means: by their own name, or by the one they have elsewhere."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, TypeVar

from toolstile_hookspecs import Tool

T = TypeVar("T")


def is_among(tool: Tool[Any, Any], names: Container[str]) -> bool:
    """Tell whether a tool is named."""
    return any(map(names.__contains__, tool.known_as))


def entry_for(tool: Tool[Any, Any], entries: Mapping[str, T]) -> T | None:
    """Return what stands under a tool's name, or else its wire name; None if nothing does."""
    return next((entries[name] for name in tool.known_as if name in entries), None)
