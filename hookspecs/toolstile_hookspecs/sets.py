"""Sets as JSON in one order: that in which Python has them is another one in each process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

import pydantic_core
from pydantic import PydanticUserError, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from toolstile_hookspecs.faults import Schema
from toolstile_hookspecs.schema_parts import alternatives, of_item, of_property
from toolstile_hookspecs.schemas import PlainJsonSchema

Writer = Callable[..., bytes]

_UNORDERED: Final = "x-toolstile-unordered"


def may_hold_sets(schema: Schema) -> bool:
    """Tell whether the JSON Schema of a type speaks of a set; a list may be meant, too."""
    return '"uniqueItems": true' in json.dumps(schema, default=str)


def in_one_order(write: Writer, adapter: TypeAdapter[Any]) -> Writer:
    """Return what writes values of a type as JSON, the items of sets in one order.

    Args:
        write: What writes them in any order.
        adapter: That of the type.
    """
    try:
        schema = adapter.json_schema(mode="serialization", schema_generator=_TellingSets)
    except PydanticUserError:
        # Part of the type JSON Schema cannot say.
        return write

    def written(value: object, **how: bool) -> bytes:
        text = write(value, **how)
        try:
            plain = pydantic_core.from_json(text)
        except ValueError:
            # It is nested more deeply than what reads it goes.
            return text
        return pydantic_core.to_json(_ordered(plain, [schema], schema))

    return written


class _TellingSets(PlainJsonSchema):
    """Pydantic's generator, telling sets from lists whose items are different."""

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return {**super().set_schema(schema), _UNORDERED: True}

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return {**super().frozenset_schema(schema), _UNORDERED: True}


def _ordered(value: object, schemas: list[Schema], root: Schema) -> Any:
    schemas = list(alternatives(schemas, root))
    if isinstance(value, dict):
        return {
            name: _ordered(each, of_property(schemas, name), root)
            for name, each in cast("dict[str, object]", value).items()
        }
    if isinstance(value, list):
        items = [
            _ordered(each, of_item(schemas, index), root)
            for index, each in enumerate(cast("list[object]", value))
        ]
        return sorted(items, key=_rank) if _is_set(schemas) else items
    return value


def _is_set(schemas: list[Schema]) -> bool:
    # Of a choice between a list and a set, the list keeps its order.
    arrays = [each for each in schemas if each.get("type") == "array"]
    return bool(arrays) and all(_UNORDERED in each for each in arrays)


def _rank(value: object) -> tuple[bool, float, str]:
    """Return what tells the order of an item: numbers come first, as they are."""
    if isinstance(value, (int, float)):
        return False, value, ""
    return True, 0, json.dumps(value, sort_keys=True)
