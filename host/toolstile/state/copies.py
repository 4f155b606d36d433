"""Copies of what can change, so that changing it in one place is seen in no other."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from toolstile_hookspecs._schema.immutable import is_immutable_type
from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.errors import StateError

T = TypeVar("T")


def is_shared(item: Any) -> bool:
    """Tell whether an item is passed on as it is: it cannot change, or is the record of a call."""
    kind: type[Any] = type(item)  # pyright: ignore[reportUnknownVariableType]
    return is_immutable_type(kind) or kind is ToolInvoked


def private(item: T) -> T:
    """Return the item itself where it cannot change, else a deep copy.

    Raises:
        StateError: It can change and cannot be copied.
    """
    if is_shared(item):
        return item
    try:
        return copy.deepcopy(item)
    except Exception as error:
        name, reason = type(item).__qualname__, str(error).rstrip(".")
        raise StateError(
            f"{name} cannot be kept in a session: it can change, and copying it failed ({reason}). "
            f"Make {name} a frozen dataclass of immutable fields, or give it __deepcopy__."
        ) from error


class Copies:
    """The copies that one reader has been given; an item is copied once for it."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        # The original is kept beside its copy, so that its id stays taken.
        self._kept: dict[int, tuple[Any, Any]] = {}

    def __call__(self, item: Any) -> Any:
        """Return the reader's own copy of an item."""
        if is_shared(item):
            return item
        found = self._kept.get(id(item))
        if found is None:
            found = self._kept.setdefault(id(item), (item, private(item)))
        return found[1]
