"""A LOG slice: a list that only ever grows, of which readers get versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolyard.state.items import EMPTY, Items


class Log:
    """The items of a LOG slice, for all the calls of a session at once.

    Nothing is ever taken back, so that no version has to be made when something is added, as
    every call does: it is made when somebody reads.

    Args:
        below: What it begins with.

    Attributes:
        add: Adds one item that cannot change, at once and without a lock.
    """

    __slots__ = ("_below", "_mutable", "_tail", "add")

    def __init__(self, below: Items = EMPTY) -> None:
        self._below = below or None
        self._tail: list[Any] = []
        self._mutable = below.mutable
        self.add: Callable[[Any], None] = self._tail.append

    def extend(self, items: list[Any], *, mutable: bool) -> None:
        """Add items; under the store's lock.

        Args:
            items: The items.
            mutable: Whether some of them can change, so that readers get copies.
        """
        # First: whoever reads meanwhile may see the items already.
        self._mutable = self._mutable or mutable
        self._tail += items

    def items(self) -> Items:
        """Return the items there are now."""
        below, tail = self._below, self._tail
        length = len(tail) + (0 if below is None else below.length)
        return Items(below, tail, length, None, self._mutable) if length else EMPTY

    def fork(self) -> Log:
        """Return an independent log with the same items; costs no more than its newest part."""
        items = self.items()
        below = items.below
        if below is None:
            return Log(items)
        # As ever, lists no longer than what comes on top are merged: few remain however often
        # a clone is cloned.
        return Log(below.extended(self, items.own(), mutable=items.mutable))
