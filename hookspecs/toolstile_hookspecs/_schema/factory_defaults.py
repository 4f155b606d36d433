"""Defaults made by factories: the same arguments may be read differently each time."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, Final, get_origin

from pydantic import BaseModel

from toolstile_hookspecs._schema.codec import Codec, ValueCodec

_ALWAYS_EQUAL: Final = (list, dict, set, frozenset, tuple, str, bytes, int, float, bool)
# As `Any`, since what is in a core schema is unknown to type checkers, too.
_DICT: Final[Any] = dict
_LISTS: Final[Any] = (list, tuple)
# What in a core schema is no part of it.
_ASIDE: Final = frozenset({"cls", "config", "default", "expected", "members", "metadata"})


def has_factory_defaults(codec: ValueCodec) -> bool:
    """Tell whether a value that is left out may be another one whenever arguments are read.

    Args:
        codec: Reads them. Of a Python type, a `default_factory` may give anything; one that is
            a class, such as `list`, gives the same each time, as far as can be told.

    Example:
        >>> from toolstile_hookspecs._schema.codec import NoParams
        >>> has_factory_defaults(NoParams())
        False
    """
    return isinstance(codec, Codec) and _makes_up(codec)


@lru_cache(maxsize=1024)
def _makes_up(codec: Codec) -> bool:
    waiting: list[Any] = [codec.adapter.core_schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _DICT):
            if part.get("type") == "default" and not _is_steady(part):
                return True
            waiting += [each for name, each in part.items() if name not in _ASIDE]
        elif isinstance(part, _LISTS):
            waiting += part
    return False


def _is_steady(default: Any) -> bool:
    factory = default.get("default_factory")
    if factory is None:
        return True
    kind: Any = get_origin(factory) or factory
    # The fields of a class are looked at where it says what is read.
    return any(kind is each for each in _ALWAYS_EQUAL) or _has_fields(kind)


def _has_fields(kind: Any) -> bool:
    return inspect.isclass(kind) and (is_dataclass(kind) or issubclass(kind, BaseModel))
