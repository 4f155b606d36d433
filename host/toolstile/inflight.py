"""The calls that a session has in flight, as handlers and policies see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from toolstile_hookspecs import InflightCall


class Inflight(Sequence[InflightCall]):
    """The calls admitted and not ended, in that order, as they are at the moment of looking."""

    __slots__ = ("_now",)

    def __init__(self, now: Callable[[], Sequence[InflightCall]]) -> None:
        self._now = now

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._now())

    def __iter__(self) -> Iterator[InflightCall]:
        """Yield them, those that there are at the beginning."""
        return iter(self._now())

    def __getitem__(self, index: Any) -> Any:
        """Return those at a place."""
        calls: Any = self._now()
        return calls[index]
