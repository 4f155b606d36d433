"""Keywords of JSON Schema that are checked here and not by `jsonschema`: exactly, in bounded time.

Source of the rules: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, cast

from toolstile_hookspecs.bounded_patterns import bounded

Schema = Mapping[str, Any]


def _pattern(validator: Any, pattern: str, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault where a text does not match a pattern; in bounded time, where RE2 takes it."""
    if validator.is_type(instance, "string") and not _searcher(pattern)(instance):
        from jsonschema import ValidationError

        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _required(validator: Any, names: Any, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault for each name that is missing, at the place where it should be."""
    # In the oldest draft it is a boolean, which others look at.
    if isinstance(names, list) and validator.is_type(instance, "object"):
        from jsonschema import ValidationError

        for name in cast("list[str]", names):
            if name not in instance:
                yield ValidationError(f"{name!r} is a required property", path=[name])


def _multiple(validator: Any, unit: float, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault where a number is no multiple of another, both as JSON writes them."""
    if validator.is_type(instance, "number") and (_exact(instance) / _exact(unit)).denominator != 1:
        from jsonschema import ValidationError

        yield ValidationError(f"{instance!r} is not a multiple of {unit}")


def _exact(number: Any) -> Fraction:
    # 0.1 is a tenth, and not the nearest to it that is a sum of powers of two.
    return Fraction(repr(number) if isinstance(number, float) else number)


def _unique(validator: Any, wanted: Any, instance: Any, schema: Schema) -> Iterator[Any]:  # noqa: ARG001 - as jsonschema calls it
    """Yield a fault where an item of an array is there twice; each is looked at once."""
    if wanted and validator.is_type(instance, "array"):
        from jsonschema import ValidationError

        seen: set[Hashable] = set()
        for each in cast("list[Any]", instance):
            if (frozen := _frozen(each)) in seen:
                yield ValidationError(f"{each!r} is there more than once")
                return
            seen.add(frozen)


def _frozen(value: Any) -> Hashable:
    """Return what can be hashed, and is equal for equal JSON values alone.

    1 and 1.0 are equal, 1 and true are not.
    """
    if isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return frozenset((name, _frozen(each)) for name, each in named.items())
    if isinstance(value, list):
        return tuple(_frozen(each) for each in cast("Sequence[Any]", value))
    return (bool, value) if isinstance(value, bool) else cast("Hashable", value)


@lru_cache(maxsize=1024)
def _searcher(pattern: str) -> Callable[[str], object]:
    try:
        return cast("Callable[[str], object]", bounded(pattern).search)
    except ValueError:
        return re.compile(pattern).search


KEYWORDS: Final = {
    "multipleOf": _multiple,
    "pattern": _pattern,
    "required": _required,
    "uniqueItems": _unique,
}
"""What checks each, as `jsonschema` has it."""
