"""Checks of the contract of stores find the faults that they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from toolstile_hookspecs import LedgerError
from toolstile_hookspecs.services.ledger import EffectState
from toolstile_hookspecs.testing import LedgerStoreContract
from toolstile_plugins.ledger.stores.memory import MemoryStore


class Rounding(MemoryStore):
    """Keeps times to the second."""

    def finish(self, key, effect_id, result, expires_at):
        return super().finish(
            key, effect_id, result, expires_at and expires_at.replace(microsecond=0)
        )


class Alphabetical(MemoryStore):
    """Tells of entries by their keys."""

    def entries(self, *, tool_name=None):
        return iter(sorted(super().entries(tool_name=tool_name), key=lambda each: each.claim.key))


class Live(MemoryStore):
    """Looks through the entries while they change."""

    def entries(self, *, tool_name=None):
        before = list(super().entries(tool_name=tool_name))
        for each in before:
            if list(super().entries(tool_name=tool_name)) != before:
                raise RuntimeError("The entries have changed.")
            yield each


class Keeping(MemoryStore):
    """Releases only what is claimed."""

    def release(self, key, effect_id):
        entry = self.get(key)
        if entry is None or entry.state is EffectState.CLAIMED:
            return super().release(key, effect_id)
        return True


class Agreeing(MemoryStore):
    """Says that it has recorded what it has not."""

    def finish(self, key, effect_id, result, expires_at):
        return self.get(key) is None or super().finish(key, effect_id, result, expires_at)


class Reviving(MemoryStore):
    """Holds whatever is renewed, though it is done."""

    def renew(self, claims):
        for effect_id, key in claims.items():
            entry = self.get(key)
            if entry is not None:
                self.release(key, effect_id)
                self.claim(entry.claim, now=entry.claim.created_at)


class Hesitant(MemoryStore):
    """Keeps the end of an effect that was unknown."""

    def finish(self, key, effect_id, result, expires_at):
        entry = self.get(key)
        end = expires_at or (entry and entry.expires_at)
        return super().finish(key, effect_id, result, end)


class Breakable(MemoryStore):
    """Raises what it is given, once there is something."""

    error: Exception | None = None

    def get(self, key):
        if self.error is not None:
            raise self.error
        return super().get(key)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("The disk is full."), "get raised OSError. Raise LedgerError from it"),
        (LedgerError(), "get raised a LedgerError without a text"),
        (None, "Nothing has failed: the store does not use"),
    ],
)
def test_a_failure_that_says_nothing_is_found(error: Exception | None, told: str) -> None:
    def break_with(error: Exception | None) -> None:
        LedgerStoreContract().test_a_failure_inside_is_told_by_a_ledger_error(
            Breakable(), lambda store: setattr(store, "error", error)
        )

    break_with(LedgerError("The disk is full. Make room, then retry."))
    with pytest.raises(AssertionError, match=told):
        break_with(error)


@pytest.mark.parametrize(
    ("make", "test"),
    [
        (Rounding, "test_what_is_done_stands_in_the_way_until_it_expires"),
        (Alphabetical, "test_entries_are_told_of_oldest_first"),
        (Live, "test_entries_can_be_changed_while_they_are_looked_through"),
        (Keeping, "test_a_released_key_is_free"),
        (Agreeing, "test_of_a_key_that_nobody_has_nothing_changes"),
        (Reviving, "test_renewing_what_is_not_claimed_does_nothing"),
        (Hesitant, "test_an_unknown_effect_that_turns_out_well_is_done"),
    ],
)
def test_a_fault_is_found(make: Callable[[], Any], test: str) -> None:
    getattr(LedgerStoreContract(), test)(MemoryStore())
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(LedgerStoreContract(), test)(make())
