"""Mappings, sequences and sets of every kind, as the plain ones that are written as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import cast


def as_plain(value: object) -> dict[object, object] | list[object]:
    """Return a mapping as a dict, a sequence or set as a list; for pydantic's `fallback`.

    Raises:
        ValueError: When it is none of them, in pydantic's words.

    Example:
        >>> as_plain(range(2)), as_plain({"a": 1}.keys())
        ([0, 1], ['a'])
    """
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    if isinstance(value, (Sequence, AbstractSet)):
        return list(cast("Sequence[object] | AbstractSet[object]", value))
    raise ValueError(f"Unable to serialize unknown type: {type(value)}")
