"""The items of a slice as a persistent sequence, and LOG slices, which only grow.

A version of a sequence never changes; a newer one shares it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from threading import Lock
from typing import Any, TypeVar, cast

from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.codecs import is_immutable_type
from toolstile_hookspecs.errors import StateError


class Items:
    """One version of a slice: everything below, then the first so many of a list.

    The list is shared by the versions that grew out of one another. Only its owner appends to it,
    and only from the version that reaches its end; any other owner puts another list on top. So
    adding costs the new items only, and an old version costs nothing. `length` counts the items
    below, too; those in `tail` beyond it belong to newer versions.
    """

    __slots__ = ("below", "length", "owner", "start", "tail")

    def __init__(self, below: Items | None, tail: list[Any], length: int, owner: object) -> None:
        self.below = below
        self.tail = tail
        self.length: int = length
        self.start: int = 0 if below is None else below.length
        self.owner = owner

    @classmethod
    def of(cls, items: list[Any], owner: object) -> Items:
        """Return a version that consists of a list, which no other code may keep."""
        return cls(None, items, len(items), owner) if items else EMPTY

    def extended(self, owner: object, new: list[Any]) -> Items:
        """Return the version with more items, from a list that no other code keeps.

        They are appended in place if the list is the owner's.
        """
        if not new:
            return self
        length = self.length + len(new)
        if self.owner is owner and len(self.tail) == self.length - self.start:
            self.tail += new
            return Items(self.below, self.tail, length, owner)
        below: Items | None = self
        tail = new
        # Lists no longer than the new list are merged, so that few remain however often
        # a slice is put back and grown again.
        while below is not None and below.length - below.start <= len(tail):
            tail = below.own() + tail
            below = below.below
        return Items(below, tail, length, owner)

    def grew_from(self, other: Items) -> bool:
        """Tell whether this is another version with items added, as far as they share a list."""
        segment: Items | None = self
        while segment is not None and segment.tail is not other.tail:
            segment = segment.below
        return not other.length or (segment is not None and segment.length >= other.length)

    def handed(self, giver: object, taker: object) -> Items:
        """Return the version with the giver's list in the taker's hands, if it was the giver's."""
        if self.owner is not giver:
            return self
        return Items(self.below, self.tail, self.length, taker)

    def after(self, start: int) -> list[Any]:
        """Return the items from a position on, all below 0, at the cost of their number."""
        if start >= self.start:
            return self.tail[start - self.start : self.length - self.start]
        below = self.below
        return (below.after(start) if below is not None else []) + self.own()

    def last(self) -> Any:
        return self.tail[self.length - self.start - 1]

    def own(self) -> list[Any]:
        return self.tail[: self.length - self.start]

    def __len__(self) -> int:
        return self.length

    def at(self, position: int) -> Any:
        segment = self
        while position < segment.start and segment.below is not None:
            segment = segment.below
        return segment.tail[position - segment.start]

    def __iter__(self) -> Iterator[Any]:
        segments: list[Items] = []
        segment: Items | None = self
        while segment is not None:
            segments.append(segment)
            segment = segment.below
        for part in reversed(segments):
            yield from islice(part.tail, part.length - part.start)


EMPTY = Items(None, [], 0, None)


class ItemsView(Sequence[Any]):
    """A version as a reader sees it: of items that can change it makes `copies` as needed."""

    __slots__ = ("_items", "copies")

    def __init__(self, items: Items, copies: Copies | None = None) -> None:
        self._items = items
        self.copies = Copies() if copies is None else copies

    def __len__(self) -> int:
        return self._items.length

    def __getitem__(self, index: Any) -> Any:
        length = self._items.length
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(length))]
        position = index + length if index < 0 else index
        if not 0 <= position < length:
            raise IndexError(f"Item {index} of {length} was asked for.")
        return self.copies(self._items.at(position))

    def __iter__(self) -> Iterator[Any]:
        return map(self.copies, self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, tuple, ItemsView)):
            return NotImplemented
        return list(self) == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


# --- Copies


T = TypeVar("T")


def is_shared(item: Any) -> bool:
    """Tell whether an item needs no copy: it cannot change, or is the record of a call."""
    type_ = cast("Any", type(item))
    return is_immutable_type(type_) or type_ is ToolInvoked


def private(item: T) -> T:
    """Return an item if it cannot change, else a deep copy; `StateError` if it has none."""
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

    __slots__ = ("made",)

    def __init__(self) -> None:
        # The original is kept beside its copy, so that its id stays taken.
        self.made: dict[int, tuple[Any, Any]] = {}

    def __call__(self, item: Any) -> Any:
        """Return the reader's own copy of an item."""
        if is_shared(item):
            return item
        found = self.made.get(id(item))
        if found is None:
            found = self.made.setdefault(id(item), (item, private(item)))
        return found[1]


# --- Reading


class SliceReader:
    """The reading half of a slice; each access makes copies of the items that can change."""

    __slots__ = ()

    def _items(self) -> Items:
        raise NotImplementedError

    def latest(self) -> Any:
        items = self._items()
        return Copies()(items.last()) if items.length else None

    def all(self) -> Sequence[Any]:
        return ItemsView(self._items())

    def where(self, predicate: Callable[[Any], bool]) -> Sequence[Any]:
        return [item for item in self.all() if predicate(item)]


# --- LOG slices, and the bounded history of a session's calls


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
