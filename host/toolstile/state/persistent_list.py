"""The items of a slice as a persistent sequence: a version never changes, a newer one shares it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar, cast, overload

from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.codecs import is_immutable_type
from toolstile_hookspecs.errors import StateError


class _ReadOnly(Sequence[Any]):
    """The base of all sequences that a slice returns."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, tuple, _ReadOnly)):
            return NotImplemented
        return list(self) == list(cast("Sequence[Any]", other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))


class Items(_ReadOnly):
    """One version of a slice: everything below, then the first so many of a list.

    The list is shared by the versions that grew out of one another. Only its owner appends
    to it, and only from the version that reaches its end; anybody else puts a list of its own
    on top. So adding costs the new items only, and an old version costs nothing.

    Args:
        below: The items before the list.
        tail: The list; items beyond `length` belong to newer versions.
        length: How many items there are, those below included.
        owner: Who may append to the list in place.
        mutable: Whether some items can change, so that readers get copies.
    """

    __slots__ = ("below", "length", "mutable", "owner", "start", "tail")

    def __init__(
        self,
        below: Items | None,
        tail: list[Any],
        length: int,
        owner: object,
        mutable: bool,  # noqa: FBT001 - on the hot path
    ) -> None:
        self.below = below
        self.tail = tail
        self.length: int = length
        self.start: int = 0 if below is None else below.length
        self.owner = owner
        self.mutable = mutable

    @classmethod
    def of(cls, items: list[Any], owner: object, *, mutable: bool) -> Items:
        """Return a version that consists of a list, which nobody else may keep."""
        return cls(None, items, len(items), owner, mutable) if items else EMPTY

    def extended(self, owner: object, new: list[Any], *, mutable: bool) -> Items:
        """Return the version with more items at the end.

        Args:
            owner: Who adds; appends in place where the list is its own.
            new: The items, in a list that nobody else keeps.
            mutable: Whether some of them can change.
        """
        if not new:
            return self
        length = self.length + len(new)
        mutable = mutable or self.mutable
        if self.owner is owner and len(self.tail) == self.length - self.start:
            self.tail += new
            return Items(self.below, self.tail, length, owner, mutable)
        below: Items | None = self
        tail = new
        # Lists no longer than what comes on top are merged, so that few remain however often
        # a slice is put back and grown again.
        while below is not None and below.length - below.start <= len(tail):
            tail = below.own() + tail
            below = below.below
        return Items(below, tail, length, owner, mutable)

    def handed(self, giver: object, taker: object) -> Items:
        """Return the version with the giver's list in the taker's hands, if it was the giver's."""
        if self.owner is not giver:
            return self
        return Items(self.below, self.tail, self.length, taker, self.mutable)

    def after(self, start: int) -> list[Any]:
        """Return the items from a position on, all below 0, at the cost of their number."""
        if start >= self.start:
            return self.tail[start - self.start : self.length - self.start]
        below = self.below
        return (below.after(start) if below is not None else []) + self.own()

    def last(self) -> Any:
        """Return the newest item; there must be one."""
        return self.tail[self.length - self.start - 1]

    def own(self) -> list[Any]:
        """Return the items of this version's list."""
        return self.tail[: self.length - self.start]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self.length))]
        position = index + self.length if index < 0 else index
        if not 0 <= position < self.length:
            raise IndexError(f"Item {index} of {self.length} was asked for.")
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
        for each in reversed(segments):
            yield from islice(each.tail, each.length - each.start)


EMPTY = Items(None, [], 0, None, False)  # noqa: FBT003 - on the hot path


class CopiedItems(_ReadOnly):
    """A version whose items are copied, each at most once, as they are looked at.

    Args:
        items: The version.
        copied: Returns the reader's own copy of an item, always the same one.
    """

    __slots__ = ("_copied", "items")

    def __init__(self, items: Items, copied: Callable[[Any], Any]) -> None:
        self.items = items
        self._copied = copied

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._copied(each) for each in self.items[index]]
        return self._copied(self.items[index])

    def __iter__(self) -> Iterator[Any]:
        return map(self._copied, self.items)


def readable(items: Items, copied: Callable[[Any], Any]) -> Sequence[Any]:
    """Return the items as a reader sees them: copies of those that can change."""
    return CopiedItems(items, copied) if items.mutable else items


# --- Copies


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


# --- Reading


class SliceReader:
    """The reading half of a slice; each access makes copies of the items that can change."""

    __slots__ = ()

    def _items(self) -> Items:
        raise NotImplementedError

    def latest(self) -> Any:
        """Return the newest item, or None."""
        items = self._items()
        return Copies()(items.last()) if items else None

    def all(self) -> Sequence[Any]:
        """Return all items, oldest first; costs the same however many there are."""
        return readable(self._items(), Copies())

    def where(self, predicate: Callable[[Any], bool]) -> Sequence[Any]:
        """Return the items for which the predicate holds."""
        return [each for each in self.all() if predicate(each)]
