"""Strict dates: pydantic's strict mode takes a number in a text for seconds since 1970."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from pydantic_core import PydanticCustomError, SchemaValidator, to_json

Schema = Mapping[str, Any]

NOT_ISO_8601: Final = "not_iso_8601"
"""The kind of fault of a date or a time that is written otherwise."""
_TOLD: Final = 'Input should be written as ISO 8601 has it, such as "{example}"'
_EXAMPLES: Final = {"date": "2026-01-31", "datetime": "2026-01-31T09:30:00Z"}
_begins_as_date: Final = re.compile(r"\d{4}-\d{2}-\d{2}").match
_GUARD: Final = re.compile(r"function-after\[(date(?:time)?)\(\), any\]")
_LONGEST_LABEL: Final = 1_000
# What a core schema consists of, but for its values.
_NESTED: Final = (dict, list, tuple)
_ASIDE: Final = {"cls", "config", "default", "expected", "members", "metadata", "serialization"}


def exact_validator(schema: Schema) -> SchemaValidator | None:
    """Return what reads as the schema says, None where pydantic does so itself.

    Args:
        schema: As `TypeAdapter.core_schema` has it.

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
    guarded = _guarded(schema)
    if guarded is schema:
        return None
    # Validators that classes have already are without the guards.
    return SchemaValidator(guarded, _use_prebuilt=False)


def without_guards(label: str) -> str:
    """Return what pydantic calls a choice of a union as it would be called without guards in it."""
    # Names that a model gave are asked for, too, and may be as long as arguments are.
    if len(label) > _LONGEST_LABEL:
        return label
    return _GUARD.sub(r"\1", label)


def _guarded(part: Any) -> Any:
    """Return a part of a schema with guards in it, itself where none is needed."""
    if isinstance(part, dict):
        return _guarded_node(cast("dict[str, Any]", part))
    items = cast("list[Any] | tuple[Any, ...]", part)
    changed = [_guarded(each) if isinstance(each, _NESTED) else each for each in items]
    same = all(new is old for new, old in zip(changed, items, strict=True))
    return part if same else type(items)(changed)


def _guarded_node(node: dict[str, Any]) -> Schema:
    type_ = node.get("type")
    # A node without a type holds fields by their names.
    is_typed = isinstance(type_, str)
    if is_typed and type_ in _EXAMPLES:
        return _date(node)
    aside = _ASIDE if is_typed else ()
    changed = {
        name: _guarded(inside)
        for name, inside in node.items()
        if name not in aside and isinstance(inside, _NESTED)
    }
    same = all(new is node[name] for name, new in changed.items())
    return node if same else {**node, **changed}


def _date(node: Schema) -> Schema:
    example = _EXAMPLES[node["type"]]
    # By a validator of its own: what has come as text is read strictly only from JSON.
    exact = SchemaValidator(cast("Any", _unnamed(node)))

    def read(value: object) -> object:
        if not isinstance(value, str):
            return exact.validate_python(value, strict=True)
        if not _begins_as_date(value):
            raise PydanticCustomError(NOT_ISO_8601, _TOLD, {"example": example})
        return exact.validate_json(to_json(value), strict=True)

    # pydantic names a function where it tells which choice of a union is at fault.
    read.__name__ = read.__qualname__ = node["type"]
    # Of the choices of a union, pydantic prefers a text to a date, and anything to `any`.
    after = {"type": "function-after", "function": _function(read)}
    return _named(node, {**after, "schema": {"type": "any"}})


def _function(function: Callable[[object], object]) -> Schema:
    return {"type": "no-info", "function": function}


def _unnamed(node: Schema) -> Schema:
    return {name: value for name, value in node.items() if name != "ref"}


def _named(node: Schema, guarded: Schema) -> Schema:
    """Return a schema under the name by which others refer to the one that it guards."""
    return {**guarded, "ref": node["ref"]} if "ref" in node else guarded
