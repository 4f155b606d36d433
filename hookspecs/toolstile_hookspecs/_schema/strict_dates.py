"""Reading as a schema says: strict dates, and marks of a union's alternatives in paths to faults.

Pydantic's strict mode takes a number in a text for seconds since 1970.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pydantic_core import PydanticCustomError, SchemaValidator, to_json

from toolstile_hookspecs._schema.core_schema import Schema, parts, rewritten

NOT_ISO_8601: Final = "not_iso_8601"
"""The kind of fault of a date or a time that is written otherwise."""
_TOLD: Final = 'Input should be written as ISO 8601 has it, such as "{example}"'
_EXAMPLES: Final = {"date": "2026-01-31", "datetime": "2026-01-31T09:30:00Z"}
_begins_as_date: Final = re.compile(r"\d{4}-\d{2}-\d{2}").match


def exact_validator(schema: Schema) -> SchemaValidator | None:
    """Return a validator that reads dates strictly and marks unions, None if there are none.

    Example:
        >>> from datetime import date
        >>> from pydantic import TypeAdapter
        >>> dates = TypeAdapter(list[date])
        >>> dates.validate_json('["86400"]', strict=True)
        [datetime.date(1970, 1, 2)]
        >>> exact_validator(dates.core_schema).validate_json('["2026-01-31"]', strict=True)
        [datetime.date(2026, 1, 31)]
        >>> exact_validator(TypeAdapter(list[int]).core_schema) is None
        True
    """
    if not any(part["type"] in _EXAMPLES or part["type"] in UNIONS for part in parts(schema)):
        return None
    # The prebuilt validators of classes lack the guards.
    return SchemaValidator(rewritten(schema, _guarded), _use_prebuilt=False)


def _guarded(node: Schema) -> Schema:
    if node["type"] not in _EXAMPLES:
        return marked(node)
    example = _EXAMPLES[node["type"]]
    # A separate validator reads JSON, because only from JSON a text is read strictly.
    unnamed: Any = {name: value for name, value in node.items() if name != "ref"}
    exact = SchemaValidator(unnamed)

    def read(value: object) -> object:
        if not isinstance(value, str):
            return exact.validate_python(value, strict=True)
        if not _begins_as_date(value):
            raise PydanticCustomError(NOT_ISO_8601, _TOLD, {"example": example})
        return exact.validate_json(to_json(value), strict=True)

    # Of the choices of a union, pydantic prefers a text to a date, and anything to `any`.
    function = {"type": "no-info", "function": read}
    guard = {"type": "function-after", "function": function, "schema": {"type": "any"}}
    return {**guard, "ref": node["ref"]} if "ref" in node else guard


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
