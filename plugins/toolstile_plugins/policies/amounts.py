"""Amounts in the arguments of calls, as whole millionths: sums of these are exact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final, cast

from pydantic_core import from_json

from toolstile_hookspecs import Tool
from toolstile_hookspecs.codecs import alternatives, schemas_among
from toolstile_hookspecs.support.text import nearest
from toolstile_plugins.policies.path_arguments import Schema, schema_of

_DIGITS: Final = 6
LARGEST: Final = 2**61
"""The largest amount, in millionths, that counters can add."""
_PLAIN: Final = re.compile(r"\d{1,30}(?:\.\d{1,30})?", re.ASCII)
_NUMBERS: Final = frozenset({"number", "integer"})


def limit_of(most: float) -> int:
    """Return a limit in millionths, rounded down."""
    return min(int(Decimal(repr(most)).scaleb(_DIGITS).to_integral_value(ROUND_FLOOR)), LARGEST)


def shown(amount: float) -> str:
    """Return an amount of millionths as a number."""
    text = f"{Decimal(int(amount)).scaleb(-_DIGITS):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount_of(tool: Tool[Any, Any], params: Any, argument: str) -> int | None:
    """Return the amount in an argument of a call in millionths, rounded up.

    Returns:
        None where no number stands there, or one below 0 or beyond `LARGEST`.
    """
    value: Any = params
    if tool.params_schema is None:
        value = from_json(tool.params_codec.encode(params))
    for name in argument.split("."):
        value = cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    # Amounts of the type `Decimal` are texts in JSON.
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return None
    if not isinstance(value, str) and not 0 <= value <= LARGEST:
        return None
    found = int(Decimal(str(value)).scaleb(_DIGITS).to_integral_value(ROUND_CEILING))
    return found if found <= LARGEST else None


def fault_of(tool: Tool[Any, Any], argument: str) -> str | None:
    """Return why an argument of a tool can never be added up, None where it can."""
    root = schema_of(tool) or {}
    parts = list(alternatives([root], root))
    for name in argument.split("."):
        objects = [part.get("properties", {}) for part in parts]
        known = [each[name] for each in objects if name in each]
        if not known:
            near = nearest(name, [own for each in objects for own in each])
            meant = f" (did you mean {near!r}?)" if near else ""
            return f"adds up {argument!r}, which {tool.name} does not have{meant}"
        parts = list(alternatives(schemas_among(known), root))
    if any(map(_may_be_number, parts)):
        return None
    return f"adds up {argument!r}, which is not a number for {tool.name}"


def _may_be_number(schema: Schema) -> bool:
    said = schema.get("type", ())
    return not _NUMBERS.isdisjoint([said] if isinstance(said, str) else said)
