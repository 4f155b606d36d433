"""A LOG slice: a list that only ever grows, of which readers get versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from toolstile.state.persistent_list import EMPTY, Items

DEEPEST: Final = 16
"""Of how many lists a version consists at most, before a fork makes one of them."""


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
        self._below = below
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
        below = self._below
        added = len(self._tail)
        if not added:
            return below
        return Items(below or None, self._tail, below.length + added, None, self._mutable)

    def fork(self) -> Log:
        """Return an independent log with the same items.

        It costs a pointer, but for forks of forks, of which every sixteenth makes one list.
        """
        items = self.items()
        if _depth(items) < DEEPEST:
            return Log(items)
        return Log(Items.of(list(items), None, mutable=items.mutable))


def _depth(items: Items) -> int:
    depth = 0
    each: Items | None = items
    while each is not None:
        depth += 1
        each = each.below
    return depth
