"""Which tools a policy means: by their own name, or by the one they have elsewhere."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from toolyard_hookspecs import DefinitionError, Tool


def is_among(tool: Tool[Any, Any], names: Container[str]) -> bool:
    """Tell whether a tool is named, by its name or its wire name."""
    return tool.name in names or (tool.wire_name is not None and tool.wire_name in names)


def refuse_text(owner: str, /, **fields: object) -> None:
    """Refuse a text where several are meant: it would be taken for its letters.

    Args:
        owner: Whose fields they are.
        fields: The fields, each of which is a collection of names.

    Raises:
        DefinitionError: Naming the first field that is a text.
    """
    for name, value in fields.items():
        if isinstance(value, str):
            msg = f"{owner}: {name}: expected several names, found the text {value!r}; write "
            raise DefinitionError(f"{msg}{{{value!r}}}.")
