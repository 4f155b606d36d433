"""The tokens that one host has redeemed."""

from __future__ import annotations

import heapq
import threading
from typing import Protocol


class SpentTokens(Protocol):
    """Remembers tokens for as long as they could be redeemed again."""

    def spend(self, token_id: str, expires: float, now: float) -> bool:
        """Note a token; return whether it is the first time.

        Args:
            token_id: The token's id.
            expires: When it expires, in seconds since 1970.
            now: The time.

        Raises:
            OSError: When it cannot be noted.
        """
        ...


class SpentInMemory:
    """What one host remembers."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._by_end: list[tuple[float, str]] = []
        self._forgotten = 0.0
        self._lock = threading.Lock()

    def spend(self, token_id: str, expires: float, now: float) -> bool:
        """Note a token; return whether it is the first time."""
        with self._lock:
            self._forget(now)
            # A clock that was put back must not bring a token back that was forgotten.
            if token_id in self._ids or expires <= self._forgotten:
                return False
            self._ids.add(token_id)
            heapq.heappush(self._by_end, (expires, token_id))
            return True

    def _forget(self, now: float) -> None:
        while self._by_end and self._by_end[0][0] <= now:
            self._forgotten, token_id = heapq.heappop(self._by_end)
            self._ids.discard(token_id)
