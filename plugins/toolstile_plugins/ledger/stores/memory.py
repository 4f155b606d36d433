"""A ledger's entries in memory: for tests, and for hosts that need nothing to outlive them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry, RecordedResult

# An entry as one plain tuple of what cannot change: the claim's fields, then state, end, reason,
# then the result's. The garbage collector soon passes over those, of which there may be millions.
Flat = tuple[Any, ...]

_CLAIM: Final = slice(0, len(Claim._fields))
_STATE: Final = len(Claim._fields)
_RESULT: Final = slice(_STATE + 3, None)
_CLAIMED, _DONE, _UNKNOWN = (state.value for state in EffectState)
_EFFECT: Final = Claim._fields.index("effect_id")


class MemoryStore:
    """Entries that last as long as the process, whose threads share them.

    A claim is held until it is finished, doubted or released: it cannot outlive its owner.
    """

    waits = False
    lease: float | None = None

    def __init__(self) -> None:
        self._entries: dict[str, Flat] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> LedgerEntry | None:
        """Return the entry of a key."""
        flat = self._entries.get(key)
        return None if flat is None else _entry(flat)

    def claim(self, claim: Claim, *, now: datetime, over: str | None = None) -> LedgerEntry | None:
        """Claim a key; returns the entry that stands in the way, or None."""
        key = claim.key
        with self._lock:
            flat = self._entries.get(key)
            if flat is not None:
                standing = _entry(flat)
                if not standing.yields_to(now, over):
                    return standing
                # Entries are listed in the order of their claims.
                del self._entries[key]
            self._entries[key] = (*claim, _CLAIMED, None, None)
            return None

    def finish(
        self, key: str, effect_id: str, result: RecordedResult, expires_at: datetime | None
    ) -> bool:
        """Record the result of a claimed or unknown effect."""
        return self._change(key, effect_id, (_DONE, expires_at, None, *result))

    def doubt(
        self, key: str, effect_id: str, reason: str, expires_at: datetime | None = None
    ) -> bool:
        """Make an effect unknown."""
        return self._change(key, effect_id, (_UNKNOWN, expires_at, reason))

    def release(self, key: str, effect_id: str) -> bool:
        """Forget an effect."""
        with self._lock:
            flat = self._entries.get(key)
            if flat is None or flat[_EFFECT] != effect_id:
                return False
            del self._entries[key]
            return True

    def renew(self, claims: Mapping[str, str]) -> None:
        """Do nothing: claims are held as it is."""

    def entries(self, *, tool_name: str | None = None) -> Iterator[LedgerEntry]:
        """Yield the entries, oldest first."""
        with self._lock:
            found = list(map(_entry, self._entries.values()))
        return (entry for entry in found if tool_name in (None, entry.claim.tool_name))

    def remove(self, *, key: str | None = None, tool_name: str | None = None) -> int:
        """Remove entries whose claims are not held."""
        return self._remove(
            lambda entry: (
                entry.state is not EffectState.CLAIMED
                and key in (None, entry.claim.key)
                and tool_name in (None, entry.claim.tool_name)
            )
        )

    def prune(self, now: datetime) -> int:
        """Remove expired entries."""
        return self._remove(lambda entry: entry.yields_to(now, None))

    def close(self) -> None:
        """Do nothing: the entries go with the store."""

    def _change(self, key: str, effect_id: str, rest: Flat) -> bool:
        with self._lock:
            flat = self._entries.get(key)
            if flat is None or flat[_EFFECT] != effect_id:
                return False
            self._entries[key] = flat[_CLAIM] + rest
            return True

    def _remove(self, is_gone: Callable[[LedgerEntry], bool]) -> int:
        with self._lock:
            gone = [key for key, flat in self._entries.items() if is_gone(_entry(flat))]
            for key in gone:
                del self._entries[key]
        return len(gone)


def _entry(flat: Flat) -> LedgerEntry:
    state, expires_at, reason = flat[_STATE : _STATE + 3]
    result = RecordedResult(*flat[_RESULT]) if state == _DONE else None
    return LedgerEntry(Claim(*flat[_CLAIM]), EffectState(state), expires_at, result, reason)
