"""A call's params as Cedar takes values."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any, Final, cast

RESERVED: Final = frozenset({"__entity", "__expr", "__extn"})
"""Keys that mean something else to Cedar than to their sender."""
MOST: Final = 2**63 - 1
DECIMAL_STEP: Final = Decimal("0.0001")
DECIMAL_MOST: Final = Decimal(MOST) * DECIMAL_STEP


class NoCedarValueError(Exception):
    """A param cannot be told to Cedar; its text says which and why."""


def cedar_value(value: object, path: str = "params") -> Any:
    """Return a JSON value as Cedar takes it.

    `null` is left out, and numbers with a fraction become `decimal` values, to four places.

    Args:
        value: The JSON value.
        path: Where it stands.

    Raises:
        NoCedarValueError: When Cedar has no such value.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if -MOST - 1 <= value <= MOST:
            return value
        raise NoCedarValueError(f"{path} is an integer of more than 64 bits")
    if isinstance(value, float):
        return {"__extn": {"fn": "decimal", "arg": _decimal(value, path)}}
    if isinstance(value, list):
        items = [each for each in cast("list[object]", value) if each is not None]
        return [cedar_value(each, f"{path}[{place}]") for place, each in enumerate(items)]
    members = cast("dict[str, object]", value)
    reserved = sorted(RESERVED & members.keys())
    if reserved:
        raise NoCedarValueError(f"{path} has the key {reserved[0]}, which is Cedar's own")
    return {
        key: cedar_value(each, f"{path}.{key}") for key, each in members.items() if each is not None
    }


def _decimal(value: float, path: str) -> str:
    exact = Decimal(repr(value))
    if not abs(exact) <= DECIMAL_MOST:
        raise NoCedarValueError(f"{path} is out of the range of Cedar's decimal")
    rounded = exact.quantize(DECIMAL_STEP, rounding=ROUND_HALF_EVEN)
    return f"{rounded:f}"
