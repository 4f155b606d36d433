"""Which types can be shared freely, because no value of theirs can ever change."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

_ATOMS: frozenset[object] = frozenset(
    {
        *(int, float, complex, bool, str, bytes, type(None), None),
        *(Decimal, Fraction, UUID, date, datetime, time, timedelta, timezone),
    }
)


@lru_cache(maxsize=4096)
def is_immutable_type(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    """Tell whether every value of the type is immutable all the way down.

    Frozen dataclasses, frozen pydantic models and named tuples count when all their
    fields do. What is not certain (an unparametrised tuple, `Any`, a protocol) is not.
    """
    return _immutable(kind, frozenset())


def _immutable(kind: Any, seen: frozenset[Any]) -> bool:  # noqa: ANN401, PLR0911
    if kind in _ATOMS:
        return True
    if kind in seen:
        return True
    origin = get_origin(kind)
    if origin is not None:
        return _immutable_generic(origin, kind, seen)
    if not isinstance(kind, type):
        return False
    if issubclass(kind, (enum.Enum, PurePath)):
        return True
    inside = seen | {kind}
    if dataclasses.is_dataclass(kind):
        frozen = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        return frozen and _all_immutable(_hints(kind), inside)
    if issubclass(kind, BaseModel):
        return bool(kind.model_config.get("frozen")) and _all_immutable(_hints(kind), inside)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _all_immutable(_hints(kind), inside)
    return False


def _immutable_generic(origin: Any, kind: Any, seen: frozenset[Any]) -> bool:  # noqa: ANN401
    arguments = get_args(kind)
    if origin is Literal:
        return True
    if origin is Annotated:
        return _immutable(arguments[0], seen)
    if origin in {Union, types.UnionType, tuple, frozenset}:
        return all(each is Ellipsis or _immutable(each, seen) for each in arguments)
    if isinstance(origin, type) and dataclasses.is_dataclass(origin):
        return _immutable(origin, seen) and all(_immutable(each, seen) for each in arguments)
    return False


def _hints(kind: type) -> list[Any]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - a name that cannot be resolved: not certain
        return [Any]
    return [hint for hint in hints.values() if get_origin(hint) is not typing.ClassVar]


def _all_immutable(kinds: list[Any], seen: frozenset[Any]) -> bool:
    return all(_immutable(kind, seen) for kind in kinds)
