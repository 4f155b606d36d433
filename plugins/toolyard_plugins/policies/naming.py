"""Which tools a policy means: by their own name, or by the one they have elsewhere."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from toolyard_hookspecs import Tool


def is_among(tool: Tool[Any, Any], names: Container[str]) -> bool:
    """Tell whether a tool is named, by its name or its wire name."""
    return tool.name in names or (tool.wire_name is not None and tool.wire_name in names)
