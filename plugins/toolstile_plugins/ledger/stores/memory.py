"""A ledger's entries in memory: for tests, and for hosts that need nothing to outlive them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any, Final

from toolstile_hookspecs.services.ledger import Claim, EffectState, LedgerEntry, RecordedResult

# An entry as one plain tuple: the claim's fields, then state, expiry, reason, then the result's
# fields; or, for an unknown effect, the token and the end of a hold. Plain tuples, because the
# garbage collector soon skips them, and a store may have millions.
Flat = tuple[Any, ...]

_CLAIM: Final = slice(0, len(Claim._fields))
_STATE: Final = len(Claim._fields)
_RESULT: Final = slice(_STATE + 3, None)
_CLAIMED, _DONE, _UNKNOWN = (state.value for state in EffectState)
_EFFECT: Final = Claim._fields.index("effect_id")
PAST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The expiry of an effect that did not happen: in the past by any clock."""
_FREE: Final = (None, -inf)
"""The hold of an effect that no process asks about."""


class MemoryStore:
    """Entries that last as long as the process, whose threads share them.

    A claim lasts until it is finished, marked unknown or released; it cannot outlive its owner.
    """

    waits = False
    lease: float | None = None

    def __init__(self) -> None:
        self._entries: dict[str, Flat] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> LedgerEntry | None:
        flat = self._entries.get(key)
        return None if flat is None else _entry(flat)

    def claim(self, claim: Claim, *, now: datetime, over: str | None = None) -> LedgerEntry | None:
        key = claim.key
        with self._lock:
            flat = self._entries.get(key)
            if flat is not None:
                standing = _entry(flat)
                if not standing.yields_to(now, over):
                    return standing
                # Removed first, because entries are listed in the order of their claims.
                del self._entries[key]
            self._entries[key] = (*claim, _CLAIMED, None, None)
            return None

    def finish(
        self, key: str, effect_id: str, result: RecordedResult, expires_at: datetime | None
    ) -> bool:
        with self._lock:
            flat = self._entries.get(key)
            if flat is None or flat[_EFFECT] != effect_id:
                return False
            # The params are kept only until the effect is known.
            self._entries[key] = (*flat[: _STATE - 1], None, _DONE, expires_at, None, *result)
            return True

    def mark_unknown(
        self, key: str, effect_id: str, reason: str, expires_at: datetime | None = None
    ) -> bool:
        with self._lock:
            return self._change(key, effect_id, (_UNKNOWN, expires_at, reason, *_FREE))

    def owe(
        self,
        claim: Claim,
        reason: str,
        was: EffectState,
        connection: Any = None,  # noqa: ARG002 - no database
    ) -> bool:
        with self._lock:
            flat = self._entries.get(claim.key)
            if flat is None or (flat[_EFFECT], flat[_STATE]) != (claim.effect_id, was):
                return False
            hold = (_UNKNOWN, None, reason, *_FREE)
            self._entries[claim.key] = (*flat[: _STATE - 1], claim.params, *hold)
            return True

    def unsettled(self) -> Iterator[LedgerEntry]:
        return (
            entry
            for entry in self.entries()
            if entry.state is EffectState.UNKNOWN and entry.expires_at is None
        )

    def hold(self, key: str, effect_id: str, token: str, *, at_once: bool = False) -> bool:
        with self._lock:
            held, until = self._hold_of(key) or ("", inf)
            is_free = held is None and (at_once or until <= time.monotonic())
            return is_free and self._note_hold(key, effect_id, token, inf)

    def defer(self, key: str, effect_id: str, token: str, seconds: float) -> bool:
        with self._lock:
            held, _ = self._hold_of(key) or ("", inf)
            until = time.monotonic() + seconds
            return held == token and self._note_hold(key, effect_id, None, until)

    def settle(
        self,
        key: str,
        effect_id: str,
        found: RecordedResult | str,
        expires_at: datetime | None,
        *,
        token: str | None = None,
    ) -> bool:
        with self._lock:
            hold = self._hold_of(key)
            if hold is None or token not in (None, hold[0]):
                return False
            if isinstance(found, str):
                return self._change(key, effect_id, (_UNKNOWN, PAST, found, *_FREE))
            return self._change(key, effect_id, (_DONE, expires_at, None, *found))

    def release(self, key: str, effect_id: str) -> bool:
        with self._lock:
            flat = self._entries.get(key)
            if flat is None or flat[_EFFECT] != effect_id:
                return False
            del self._entries[key]
            return True

    def renew(self, claims: Mapping[str, str]) -> None:
        """Do nothing, because claims need no renewal."""

    def entries(self, *, tool_name: str | None = None) -> Iterator[LedgerEntry]:
        with self._lock:
            found = list(map(_entry, self._entries.values()))
        return (entry for entry in found if tool_name in (None, entry.claim.tool_name))

    def remove(self, *, key: str | None = None, tool_name: str | None = None) -> int:
        return self._remove(
            lambda entry: (
                entry.state is not EffectState.CLAIMED
                and key in (None, entry.claim.key)
                and tool_name in (None, entry.claim.tool_name)
            )
        )

    def prune(self, now: datetime) -> int:
        return self._remove(lambda entry: entry.yields_to(now, None))

    def close(self) -> None:
        """Do nothing, because the entries end with the store."""

    def _hold_of(self, key: str) -> tuple[str | None, float] | None:
        flat = self._entries.get(key)
        if flat is None or flat[_STATE : _STATE + 2] != (_UNKNOWN, None):
            return None
        token, until = flat[_RESULT]
        return token, until

    def _note_hold(self, key: str, effect_id: str, token: str | None, until: float) -> bool:
        reason = self._entries[key][_STATE + 2]
        return self._change(key, effect_id, (_UNKNOWN, None, reason, token, until))

    def _change(self, key: str, effect_id: str, rest: Flat) -> bool:
        flat = self._entries.get(key)
        if flat is None or flat[_EFFECT] != effect_id:
            return False
        claim = flat[_CLAIM] if rest[0] != _DONE else (*flat[: _STATE - 1], None)
        self._entries[key] = claim + rest
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
    owner = flat[_RESULT][0] if state == _UNKNOWN else None
    return LedgerEntry(Claim(*flat[_CLAIM]), EffectState(state), expires_at, result, reason, owner)
