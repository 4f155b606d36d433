"""Immutable types: their values are shared without a copy."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from dataclasses import KW_ONLY
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Annotated, Any, ClassVar, Literal, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

_ATOMS: frozenset[type] = frozenset(
    {
        *(int, float, complex, bool, str, bytes, type(None)),
        *(Decimal, Fraction, UUID, date, datetime, time, timedelta, timezone),
        *(Path, PosixPath, WindowsPath, PurePath, PurePosixPath, PureWindowsPath),
    }
)


def is_immutable_type(kind: Any) -> bool:
    """Tell whether every value of the type is immutable all the way down.

    Frozen dataclasses, frozen pydantic models and named tuples count when all their
    fields do. What is not certain (an unparametrised tuple, `Any`, a protocol) is not.

    Example:
        >>> is_immutable_type(tuple[int, ...]), is_immutable_type(list[int])
        (True, False)
    """
    try:
        return _remembered(kind)
    except TypeError:  # an annotation that cannot be hashed
        return _immutable(kind, frozenset())


@lru_cache(maxsize=4096)
def _remembered(kind: Any) -> bool:
    return _immutable(kind, frozenset())


def _immutable(kind: Any, seen: frozenset[Any]) -> bool:
    origin = get_origin(kind)
    if origin is not None:
        return _immutable_generic(origin, kind, seen)
    if kind is None:
        return True
    return isinstance(kind, type) and _immutable_class(cast("type[Any]", kind), seen)


def _immutable_generic(origin: Any, kind: Any, seen: frozenset[Any]) -> bool:
    arguments = get_args(kind)
    if origin is Literal:
        return True
    if origin is Annotated:
        return _immutable(arguments[0], seen)
    if origin in {Union, types.UnionType, tuple, frozenset}:
        return all(each is Ellipsis or _immutable(each, seen) for each in arguments)
    return False


def _immutable_class(kind: type[Any], seen: frozenset[Any]) -> bool:
    if kind in _ATOMS or kind in seen or issubclass(kind, enum.Enum):
        return True
    inside = seen | {cast("Any", kind)}
    if issubclass(kind, BaseModel):
        return _is_sealed_model(kind) and _all_immutable(
            [each.annotation for each in kind.model_fields.values()], inside
        )
    if dataclasses.is_dataclass(kind):
        return _is_sealed_dataclass(kind) and _all_immutable(_hints(kind), inside)
    return (
        issubclass(kind, tuple)
        and hasattr(cast("object", kind), "_fields")
        and _is_sealed_tuple(cast("Any", kind))
        and _all_immutable(_hints(cast("Any", kind)), inside)
    )


def _is_sealed_model(kind: type[BaseModel]) -> bool:
    config = kind.model_config
    return (
        bool(config.get("frozen"))
        and config.get("extra") != "allow"
        and not kind.__private_attributes__
    )


def _is_sealed_dataclass(kind: type[Any]) -> bool:
    """Tell whether it is frozen itself, not just derived from one, and no container at heart."""
    own: Any = vars(kind).get("__dataclass_params__")
    maker: object = kind.__new__
    return own is not None and own.frozen and maker is object.__new__


def _is_sealed_tuple(kind: type[Any]) -> bool:
    """Tell whether all fields have types, and no attribute can be added."""
    return kind.__dictoffset__ == 0 and set(kind._fields) <= set(kind.__annotations__)


def _hints(kind: type[Any]) -> list[Any]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001 - a name that cannot be resolved: not certain
        return [Any]
    return [
        hint
        for hint in hints.values()
        if get_origin(hint) is not ClassVar and hint is not ClassVar and hint is not KW_ONLY
    ]


def _all_immutable(kinds: list[Any], seen: frozenset[Any]) -> bool:
    return all(_immutable(kind, seen) for kind in kinds)
