"""Which tools a policy means: by their own name, or by the one they have elsewhere."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, TypeVar

from toolyard_hookspecs import DefinitionError, Tool

T = TypeVar("T")


def is_among(tool: Tool[Any, Any], names: Container[str]) -> bool:
    """Tell whether a tool is named."""
    return any(map(names.__contains__, tool.known_as))


def entry_for(tool: Tool[Any, Any], entries: Mapping[str, T]) -> T | None:
    """Return what stands under a tool's name, or else its wire name; None if nothing does."""
    return next((entries[name] for name in tool.known_as if name in entries), None)


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
