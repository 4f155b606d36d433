"""Cuts what is too long for a result, always at a line, and says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of many items.

    Args:
        items: Those to show.
        first: The place of the first one, from 1.
        more: Whether there are more after the last one.
    """

    items: tuple[T, ...]
    first: int
    more: bool

    @property
    def next(self) -> int:
        """The place after the last item."""
        return self.first + len(self.items)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self.first == 1 and not self.more

    @property
    def span(self) -> str:
        """The places of the first and last item, one where they are the same."""
        if len(self.items) == 1:
            return f"{self.first:,}"
        return f"{self.first:,}-{self.next - 1:,}"


def cut(
    items: Iterable[T],
    show: Callable[[T], str],
    *,
    offset: int,
    limit: int | None,
    max_chars: int,
) -> Page[T]:
    """Return a page, which holds one item at least if there is one at its place.

    Args:
        items: All of them; no more of them are taken than are needed.
        show: How an item is shown.
        offset: The place of the first one to show, from 1.
        limit: How many to show at most.
        max_chars: How many characters to show at most.

    Example:
        >>> cut("abcd", str, offset=2, limit=2, max_chars=100)
        Page(items=('b', 'c'), first=2, more=True)
    """
    taken: list[T] = []
    room = max_chars
    for item in islice(items, offset - 1, None):
        room -= len(show(item)) + 1
        if taken and (room < -1 or len(taken) == limit):
            return Page(tuple(taken), offset, more=True)
        taken.append(item)
    return Page(tuple(taken), offset, more=False)
