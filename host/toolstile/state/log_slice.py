"""LOG slices: lists that only grow, and the bounded history of a session's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from threading import Lock
from typing import Any

from toolstile.state.persistent_list import EMPTY, Items
from toolstile_hookspecs.calls import ToolInvoked


class Log:
    """The items of a LOG slice, for all the calls of a session at once.

    Nothing is ever removed, so a version is made only for a reader. `add` adds one item that cannot
    change, at once and without a lock.
    """

    __slots__ = ("_items", "add")

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._items = list(items)
        self.add: Callable[[Any], None] = self._items.append

    def extend(self, items: list[Any]) -> None:
        """Add items; under the store's lock."""
        self._items += items

    def insert(self, position: int, items: list[Any]) -> None:
        """Add items before those from a position on; under the store's lock."""
        if position == len(self._items):
            self._items += items
        else:
            # Readers' versions continue to see the former list.
            self._items = [*self._items[:position], *items, *self._items[position:]]
            self.add = self._items.append

    def items(self) -> Items:
        return Items.of(self._items, None)

    def fork(self) -> Log:
        return Log(self._items)


class History:
    """The events of a session's calls: a `Log` with a bound, which drops the oldest first.

    Two generations hold them. Where the younger one reaches half the bound, it becomes the older
    one, and the older one goes: so between half the bound and the bound is kept, and adding costs
    no copy. The bounds are a number of `events`, and a `size` in bytes of their arguments, texts
    and values, in which a character counts as one; 0 stands for none.
    """

    __slots__ = ("_generations", "_lock", "_most", "_most_bytes", "_size")

    def __init__(self, events: int, size: int) -> None:
        self._most = events / 2 or inf
        self._most_bytes = size / 2 or inf
        self._generations: tuple[list[ToolInvoked], list[ToolInvoked]] = ([], [])
        self._size = 0
        self._lock = Lock()

    def add(self, event: Any, size: int) -> None:
        """Add an event that holds so many bytes; only where a generation is full, under a lock."""
        young = self._generations[1]
        young.append(event)
        self._size += size
        if len(young) >= self._most or self._size >= self._most_bytes:
            with self._lock:
                if self._generations[1] is young:
                    # Readers see the old list, so a thread may still add to it.
                    self._generations = (young, [])
                    self._size = 0

    def extend(self, items: list[Any]) -> None:
        for event in items:
            self.add(
                event, sum(len(each or "") for each in (event.arguments, event.text, event.data))
            )

    def items(self) -> Items:
        older, young = self._generations
        below = Items.of(older, None) if older else None
        length = len(young) + (below.length if below is not None else 0)
        return Items(below, young, length, None) if length else EMPTY

    def fork(self) -> History:
        copy = History(0, 0)
        copy._most, copy._most_bytes = self._most, self._most_bytes
        older, young = self._generations
        copy._generations, copy._size = ([*older], [*young]), self._size
        return copy
