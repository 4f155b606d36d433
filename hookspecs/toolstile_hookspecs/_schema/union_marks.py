"""Marks of a union's alternatives, in place of their names in pydantic's paths to faults."""

from __future__ import annotations

import json
from typing import Any, Final

from toolstile_hookspecs._schema.core_schema import Schema

Path = tuple[int | str, ...]

UNIONS: Final = frozenset({"union", "tagged-union"})
OTHER_TAG: Final = "other_tag"
"""The kind of fault of a value whose tag no alternative has."""
MARK: Final = "\0"
"""Begins the mark of an alternative, before its number."""
_TAGGED: Final = "\0tag"


def marked(node: Schema) -> Schema:
    """Return a part of a core schema, with marks if it is a union."""
    choices: Any = node.get("choices")
    if node["type"] == "union":
        parts: list[Any] = [part[0] if isinstance(part, tuple) else part for part in choices]
        return {**node, "choices": [(part, f"{MARK}{n}") for n, part in enumerate(parts)]}
    if node["type"] == "tagged-union":
        # A tag is a value that is read, so its mark follows it.
        one = {"type": "union", "mode": "left_to_right", "auto_collapse": False}
        tagged = {tag: {**one, "choices": [(part, _TAGGED)]} for tag, part in choices.items()}
        name, tags = node["discriminator"], json.dumps([*choices], default=str)
        told = f"{name} should be one of {tags}"
        custom = {"custom_error_type": OTHER_TAG, "custom_error_message": told}
        return {**(custom if isinstance(name, str) else {}), **node, "choices": tagged}
    return node


def union_of(path: Path, start: int) -> Path | None:
    """Return the part of a path that leads to a union with its mark at `start` or later."""
    marks = (n for n in range(start, len(path)) if str(path[n])[:1] == MARK)
    fork = next((n for n in marks if path[n] != _TAGGED), None)
    return None if fork is None else path[:fork]


def steps_of(path: Path) -> list[int | str]:
    """Return a path without alternatives."""
    tags = {n - 1 for n, part in enumerate(path) if part == _TAGGED}
    return [part for n, part in enumerate(path) if n not in tags and str(part)[:1] != MARK]
