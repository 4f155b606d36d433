"""The conformance suites of a ledger's store, to subclass, and claims for tests."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol

import pytest

from toolstile_hookspecs.errors import LedgerError
from toolstile_hookspecs.services.ledger import (
    Claim,
    EffectState,
    LedgerEntry,
    LedgerStore,
    RecordedResult,
    SettlesUnknown,
)
from toolstile_hookspecs.testing.suite import StoreContract, at_once

NOW = datetime(2026, 3, 1, 12, 0, 0, 123_457, tzinfo=UTC)
HOUR = timedelta(hours=1)
LetLapse = Callable[[LedgerStore, Claim], None]

_numbers = count(1)


def claim_of(key: str = "k", tool_name: str = "order") -> Claim:
    """Return a new claim on a key."""
    return Claim(key, tool_name, "hash", f"{next(_numbers):032x}", "session", "call", NOW)


def claimed(store: LedgerStore, key: str = "k", tool_name: str = "order") -> Claim:
    """Return a claim that a store has."""
    claim = claim_of(key, tool_name)
    assert store.claim(claim, now=NOW) is None
    return claim


def finished(
    store: LedgerStore, key: str = "k", tool_name: str = "order", ends: datetime | None = None
) -> Claim:
    """Return the claim of an effect that is done."""
    claim = claimed(store, key, tool_name)
    assert store.finish(key, claim.effect_id, RecordedResult("Done."), ends)
    return claim


def unknown_of(
    store: LedgerStore,
    key: str = "k",
    reason: str = "It was cut off.",
    ends: datetime | None = None,
) -> Claim:
    """Return the claim of an unknown effect."""
    claim = claimed(store, key)
    assert store.mark_unknown(key, claim.effect_id, reason, ends)
    return claim


def found(store: LedgerStore) -> LedgerEntry:
    """Return the entry of the key `k`."""
    entry = store.get("k")
    assert entry is not None
    return entry


def refused(store: LedgerStore, now: datetime = NOW, over: str | None = None) -> LedgerEntry:
    """Return the entry that stands in the way of another claim on the key `k`."""
    standing = store.claim(claim_of(), now=now, over=over)
    assert standing is not None
    return standing


class LedgerStoreContract(
    StoreContract,
    store=LedgerStore,
    again=LedgerStore,
    let_lapse=("store", "claim"),
    break_it=("store",),
):
    """Tests of a ledger's store; see `StoreContract` for `store` and `again`.

    `let_lapse` returns a function of a store and a new claim, which makes the claim and returns
    once it has lapsed. `break_it` returns a function of a store that makes it fail inside, as with
    a full disk. Leave each out if the store cannot do so.
    """

    @pytest.fixture
    def let_lapse(self) -> LetLapse:
        """Return a function that lets a claim lapse."""
        pytest.skip("Claims of this store cannot lapse.")

    @pytest.fixture
    def break_it(self) -> Callable[[LedgerStore], None]:
        """Return a function that makes a store fail inside."""
        pytest.skip("Nothing makes this store fail inside.")

    # --- claiming ---

    def test_a_key_that_nobody_has_can_be_claimed(self, store: LedgerStore) -> None:
        assert store.get("k") is None
        claim = claimed(store)
        entry = found(store)
        assert (entry.claim, entry.state) == (claim, EffectState.CLAIMED)
        assert (entry.expires_at, entry.result) == (None, None)

    def test_a_claimed_key_stands_in_the_way(self, store: LedgerStore, again: LedgerStore) -> None:
        first = claimed(store)
        standing = refused(again, now=NOW + 1000 * HOUR)
        assert (standing.claim, standing.state) == (first, EffectState.CLAIMED)

    def test_keys_do_not_hinder_one_another(self, store: LedgerStore) -> None:
        for key in ("a", "A", "a "):
            claimed(store, key)

    def test_of_many_at_once_one_gets_it(self, store: LedgerStore, again: LedgerStore) -> None:
        keys = [f"k{number}" for number in range(20)]

        def race(number: int) -> list[str]:
            own = store if number % 2 else again
            return [key for key in keys if own.claim(claim_of(key), now=NOW) is None]

        won = [key for keys in at_once(race, 8) for key in keys]
        assert sorted(won) == sorted(keys)

    # --- recording ---

    @pytest.mark.parametrize(
        "result",
        [
            RecordedResult(""),
            RecordedResult("Ordered.", b'{"number":1}'),
            RecordedResult("Ordered.", b"null", excluded=True),
            RecordedResult("Signed in with hunter2.", secret=True),
            RecordedResult("\0 \ud800 ü 😀\r\n", '"\0ü"'.encode(), changes='[{"a":"\ud800"}]'),
            RecordedResult("x" * 100_000, b'"' + b"x" * 1_000_000 + b'"', unportable="why"),
        ],
        ids=["empty", "value", "excluded", "secret", "odd text", "large"],
    )
    def test_what_is_recorded_is_there(
        self, store: LedgerStore, again: LedgerStore, result: RecordedResult
    ) -> None:
        claim = claimed(store)
        assert store.finish("k", claim.effect_id, result, NOW + HOUR)
        entry = found(again)
        assert (entry.claim, entry.state) == (claim, EffectState.DONE)
        assert (entry.result, entry.expires_at) == (result, NOW + HOUR)

    def test_what_is_done_stands_in_the_way_until_it_expires(self, store: LedgerStore) -> None:
        finished(store, ends=NOW + HOUR)
        standing = refused(store, now=NOW + HOUR - timedelta(microseconds=1))
        assert standing.state is EffectState.DONE
        second = claim_of()
        assert store.claim(second, now=NOW + HOUR) is None
        entry = found(store)
        assert (entry.claim, entry.state, entry.result) == (second, EffectState.CLAIMED, None)
        assert entry.expires_at is None

    def test_without_an_end_it_stands_for_ever(self, store: LedgerStore) -> None:
        finished(store)
        refused(store, now=datetime(9999, 12, 31, tzinfo=UTC))

    def test_an_unknown_effect_that_turns_out_well_is_done(self, store: LedgerStore) -> None:
        claim = unknown_of(store, ends=NOW + HOUR)
        assert store.finish("k", claim.effect_id, RecordedResult("Done."), None)
        entry = found(store)
        assert (entry.state, entry.reason, entry.expires_at) == (EffectState.DONE, None, None)

    def test_what_was_recorded_can_be_recorded_anew(self, store: LedgerStore) -> None:
        claim = claimed(store)
        store.finish("k", claim.effect_id, RecordedResult("Done.", changes="[]"), NOW)
        whole = RecordedResult("Done.", changes='[{"a":1}]')
        assert store.finish("k", claim.effect_id, whole, NOW + HOUR)
        entry = found(store)
        assert (entry.result, entry.expires_at) == (whole, NOW + HOUR)

    # --- marking unknown and releasing ---

    def test_an_unknown_effect_stands_in_the_way(self, store: LedgerStore) -> None:
        unknown_of(store)
        standing = refused(store, now=NOW + 1000 * HOUR)
        assert (standing.state, standing.reason) == (EffectState.UNKNOWN, "It was cut off.")

    def test_whoever_knows_of_it_takes_it_over_once(self, store: LedgerStore) -> None:
        first, second = unknown_of(store), claim_of()
        assert store.claim(second, now=NOW, over=first.effect_id) is None
        standing = refused(store, over=first.effect_id)
        assert (standing.claim, standing.state) == (second, EffectState.CLAIMED)
        assert standing.reason is None

    def test_only_an_unknown_effect_is_taken_over(self, store: LedgerStore) -> None:
        first = claimed(store)
        refused(store, over=first.effect_id)
        store.finish("k", first.effect_id, RecordedResult("Done."), None)
        refused(store, over=first.effect_id)

    def test_reasons_may_be_any_text(self, store: LedgerStore) -> None:
        odd = "\0 \ud800 ü"
        claim = unknown_of(store, reason=odd)
        assert found(store).reason
        assert store.finish("k", claim.effect_id, RecordedResult("Done.", unportable=odd), None)
        result = found(store).result
        assert result is not None
        assert result.unportable

    def test_an_unknown_effect_can_be_given_an_end(self, store: LedgerStore) -> None:
        unknown_of(store, ends=NOW)
        claimed(store)

    def test_what_was_recorded_can_become_unknown(self, store: LedgerStore) -> None:
        claim = finished(store)
        assert store.mark_unknown("k", claim.effect_id, "It was rolled back.")
        entry = found(store)
        assert (entry.state, entry.result) == (EffectState.UNKNOWN, None)

    def test_a_released_key_is_free(self, store: LedgerStore) -> None:
        for make in (claimed, finished):
            claim = make(store)
            assert store.release("k", claim.effect_id)
            assert store.get("k") is None
        claimed(store)

    def test_of_a_key_that_nobody_has_nothing_changes(self, store: LedgerStore) -> None:
        effect_id = claim_of().effect_id
        assert not store.finish("k", effect_id, RecordedResult("Done."), None)
        assert not store.mark_unknown("k", effect_id, "It was cut off.")
        assert not store.release("k", effect_id)
        assert store.get("k") is None

    def test_a_late_owner_changes_nothing(self, store: LedgerStore) -> None:
        first, second = unknown_of(store), claim_of()
        store.claim(second, now=NOW, over=first.effect_id)
        before = store.get("k")
        assert not store.finish("k", first.effect_id, RecordedResult("Late."), None)
        assert not store.mark_unknown("k", first.effect_id, "Late.")
        assert not store.release("k", first.effect_id)
        store.renew({first.effect_id: "k"})
        assert store.get("k") == before

    # --- leases ---

    def test_a_claim_that_nobody_holds_is_unknown(
        self, store: LedgerStore, again: LedgerStore, let_lapse: LetLapse
    ) -> None:
        claim = claim_of()
        let_lapse(store, claim)
        assert found(again).state is EffectState.UNKNOWN
        standing = refused(again)
        assert (standing.claim, standing.state) == (claim, EffectState.UNKNOWN)
        assert standing.reason
        assert again.claim(claim_of(), now=NOW, over=claim.effect_id) is None

    def test_a_claim_that_nobody_holds_can_be_removed(
        self, store: LedgerStore, again: LedgerStore, let_lapse: LetLapse
    ) -> None:
        let_lapse(store, claim_of())
        assert again.remove(key="k") == 1
        assert again.get("k") is None

    def test_renewing_what_is_not_claimed_does_nothing(self, store: LedgerStore) -> None:
        store.renew({claim_of().effect_id: "k"})
        assert store.get("k") is None
        claim = finished(store)
        before = store.get("k")
        store.renew({claim.effect_id: "k"})
        assert store.get("k") == before

    # --- looking through ---

    def test_entries_are_told_of_oldest_first(self, store: LedgerStore) -> None:
        claims = [
            claim_of(key)._replace(created_at=NOW + number * HOUR)
            for number, key in enumerate(["again", "b", "c", "a", "again"])
        ]
        for claim in claims:
            assert store.claim(claim, now=NOW) is None
            if claim is claims[0]:
                store.finish("again", claim.effect_id, RecordedResult("Done."), NOW)
        assert [each.claim for each in store.entries()] == claims[1:]
        assert [each.claim for each in store.entries(tool_name="order")] == claims[1:]

    def test_entries_can_be_changed_while_they_are_looked_through(self, store: LedgerStore) -> None:
        for key in ("a", "b", "c"):
            claimed(store, key)
        released = [store.release(each.claim.key, each.claim.effect_id) for each in store.entries()]
        assert released == [True] * 3
        assert list(store.entries()) == []

    def test_or_those_of_a_tool(self, store: LedgerStore) -> None:
        claimed(store, "a", "order")
        claimed(store, "b", "pay")
        assert [each.claim.key for each in store.entries(tool_name="pay")] == ["b"]
        assert list(store.entries(tool_name="send")) == []

    # --- removing ---

    @pytest.mark.parametrize(
        ("which", "left"),
        [
            ({"key": "a"}, ["b", "c", "held"]),
            ({"tool_name": "order"}, ["c", "held"]),
            ({}, ["held"]),
            ({"key": "held"}, ["a", "b", "c", "held"]),
            ({"key": "unheard of"}, ["a", "b", "c", "held"]),
        ],
    )
    def test_entries_are_removed_but_for_claims_that_are_held(
        self, store: LedgerStore, which: dict[str, str], left: list[str]
    ) -> None:
        for key, tool_name in (("a", "order"), ("b", "order"), ("c", "pay")):
            finished(store, key, tool_name)
        claimed(store, "held")
        assert store.remove(**which) == 4 - len(left)
        assert sorted(each.claim.key for each in store.entries()) == left

    def test_what_has_expired_is_pruned(self, store: LedgerStore) -> None:
        ends = {"gone": NOW, "to come": NOW + HOUR, "for ever": None}
        for key, end in ends.items():
            finished(store, key, ends=end)
        unknown_of(store, "unknown", ends=NOW)
        claimed(store, "held")
        assert store.prune(NOW) == 2  # noqa: PLR2004 - one done, one unknown
        assert sorted(each.claim.key for each in store.entries()) == ["for ever", "held", "to come"]

    # --- failing ---

    def test_a_failure_inside_is_told_by_a_ledger_error(
        self, store: LedgerStore, break_it: Callable[[LedgerStore], None]
    ) -> None:
        claim, other = claimed(store), claim_of("other")
        break_it(store)
        uses: dict[str, Callable[[], object]] = {
            "get": lambda: store.get("k"),
            "claim": lambda: store.claim(other, now=NOW),
            "finish": lambda: store.finish("k", claim.effect_id, RecordedResult("Done."), None),
            "mark_unknown": lambda: store.mark_unknown("k", claim.effect_id, "Unknown."),
            "release": lambda: store.release("k", claim.effect_id),
            "renew": lambda: store.renew({claim.effect_id: "k"}),
            "entries": lambda: list(store.entries()),
            "remove": store.remove,
            "prune": lambda: store.prune(NOW),
        }
        failed: set[str] = set()
        for name, use in uses.items():
            try:
                use()
            except LedgerError as error:
                text = f"{name} raised a LedgerError without a text. Give the cause and the remedy"
                assert str(error), text  # noqa: PT017 - not all of them fail
                failed.add(name)
            except Exception as error:
                text = f"{name} raised {type(error).__name__}. Raise LedgerError from it"
                raise AssertionError(f"{text}, with the cause and the remedy") from error
        assert failed, "Nothing has failed: the store does not use the part that `break_it` breaks"

    # --- closing ---

    def test_closed_and_used_again_it_is_as_before(self, store: LedgerStore) -> None:
        claimed(store)
        store.close()
        assert store.get("k") is not None
        store.close()


PARAMS = b'{"item":"tea"}'
LONG = 3600.0
"""Seconds that do not pass during a test."""


class SettlingStore(LedgerStore, SettlesUnknown, Protocol):
    """A store that keeps to both."""


class SettlesUnknownContract(StoreContract, store=LedgerStore, again=LedgerStore):
    """Tests of a `LedgerStore` that is a `SettlesUnknown`; see `LedgerStoreContract`."""

    let_lapse = LedgerStoreContract.let_lapse

    @pytest.fixture
    def effect_id(self, store: SettlingStore) -> str:
        """Return the id of an unknown effect of the key `k`."""
        claim = claim_of()._replace(params=PARAMS)
        store.claim(claim, now=NOW)
        store.mark_unknown("k", claim.effect_id, "It was cut off.")
        return claim.effect_id

    def test_it_says_that_it_settles(self, store: SettlingStore) -> None:
        assert isinstance(store, SettlesUnknown)

    def test_params_are_kept_until_the_effect_is_finished(
        self, store: SettlingStore, again: SettlingStore
    ) -> None:
        claim, after = claim_of()._replace(params=PARAMS), claim_of()._replace(params=b"[1]")
        kept: list[bytes | None] = []
        for change in (
            lambda: store.claim(claim, now=NOW),
            lambda: store.mark_unknown("k", claim.effect_id, "It was cut off."),
            lambda: store.claim(after, now=NOW, over=claim.effect_id),
            lambda: store.finish("k", after.effect_id, RecordedResult("Done.", b"{}"), None),
            lambda: store.mark_unknown("k", after.effect_id, "It was rolled back."),
        ):
            change()
            kept.append(found(again).claim.params)
        assert kept == [PARAMS, PARAMS, b"[1]", None, None]

    def test_only_what_is_unknown_is_unsettled(self, store: SettlingStore, effect_id: str) -> None:
        others = [claimed(store, "a"), finished(store, "b"), unknown_of(store, "c", ends=NOW)]
        assert [entry.claim.effect_id for entry in store.unsettled()] == [effect_id]
        for claim in others:
            assert not store.hold(claim.key, claim.effect_id, "mine")
            assert not store.settle(claim.key, claim.effect_id, "It has not.", None)

    @pytest.mark.parametrize("is_asked", [True, False], ids=["held", "settled"])
    def test_a_claim_that_nobody_holds_is_unsettled_and_can_be(
        self, store: SettlingStore, again: SettlingStore, let_lapse: LetLapse, *, is_asked: bool
    ) -> None:
        claim = claim_of()
        let_lapse(store, claim)
        assert [entry.claim for entry in again.unsettled()] == [claim]
        if is_asked:
            assert again.hold("k", claim.effect_id, "mine")
        else:
            assert again.settle("k", claim.effect_id, "It has not.", None)

    def test_of_many_at_once_one_holds_an_effect(
        self, store: SettlingStore, again: SettlingStore, effect_id: str
    ) -> None:
        def race(number: int) -> bool:
            own = store if number % 2 else again
            return own.hold("k", effect_id, f"{number}", at_once=True)

        assert sorted(at_once(race, 8)) == [False] * 7 + [True]

    def test_a_deferred_effect_waits_unless_it_is_asked_at_once(
        self, store: SettlingStore, again: SettlingStore, effect_id: str
    ) -> None:
        assert store.hold("k", effect_id, "first")
        assert not store.defer("k", effect_id, "another", 0)
        assert store.defer("k", effect_id, "first", 0)
        assert again.hold("k", effect_id, "second")
        assert again.defer("k", effect_id, "second", LONG)
        assert not store.hold("k", effect_id, "third")
        assert store.hold("k", effect_id, "third", at_once=True)
        entry = found(store)
        assert (entry.state, entry.reason) == (EffectState.UNKNOWN, "It was cut off.")

    def test_the_hold_that_was_given_back_settles_nothing(
        self, store: SettlingStore, effect_id: str
    ) -> None:
        result = RecordedResult("Done.")
        store.hold("k", effect_id, "first")
        store.defer("k", effect_id, "first", 0)
        assert not store.settle("k", effect_id, result, None, token="first")  # noqa: S106 - no password
        store.hold("k", effect_id, "second")
        assert not store.settle("k", effect_id, result, None, token="first")  # noqa: S106
        assert store.settle("k", effect_id, result, NOW, token="second")  # noqa: S106
        entry = found(store)
        assert (entry.state, entry.result) == (EffectState.DONE, result)
        assert (entry.expires_at, entry.reason) == (NOW, None)

    @pytest.mark.parametrize(
        "first", ["It has not.", RecordedResult("Done.", b"7")], ids=["not", "done"]
    )
    def test_an_effect_is_settled_once(
        self, store: SettlingStore, again: SettlingStore, effect_id: str, first: Any
    ) -> None:
        store.hold("k", effect_id, "mine")
        assert again.settle("k", effect_id, first, None)
        before = store.get("k")
        assert not store.settle("k", effect_id, "Late.", None, token="mine")  # noqa: S106
        assert not store.settle("k", effect_id, RecordedResult("Late."), None)
        assert not store.defer("k", effect_id, "mine", 0)
        assert not store.hold("k", effect_id, "more", at_once=True)
        assert store.get("k") == before

    @pytest.mark.parametrize("jump", [-1000 * HOUR, 0 * HOUR, 1000 * HOUR], ids=str)
    def test_what_has_not_happened_runs_again_whatever_the_clocks_say(
        self, store: SettlingStore, effect_id: str, jump: Any
    ) -> None:
        assert store.settle("k", effect_id, "It has not.", None)
        entry = found(store)
        assert (entry.claim.effect_id, entry.reason) == (effect_id, "It has not.")
        assert store.claim(claim_of(), now=NOW + jump) is None

    def test_of_another_effect_nothing_changes(self, store: SettlingStore, effect_id: str) -> None:
        before, other = store.get("k"), claim_of().effect_id
        assert effect_id != other
        assert not store.hold("k", other, "mine")
        assert not store.defer("k", other, "mine", 0)
        assert not store.settle("k", other, "It has not.", None)
        assert not store.hold("nothing", other, "mine")
        assert store.get("k") == before
        assert store.claim(claim_of(), now=datetime(2100, 1, 1, tzinfo=UTC)) is not None
