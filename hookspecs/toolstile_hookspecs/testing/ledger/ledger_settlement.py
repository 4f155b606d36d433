"""The conformance suite of a ledger's store that settles unknown effects, to subclass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

import pytest

from toolstile_hookspecs.services.ledger import (
    Claim,
    EffectState,
    LedgerStore,
    RecordedResult,
    SettlesUnknown,
)
from toolstile_hookspecs.testing.ledger.ledger_store import (
    HOUR,
    NOW,
    claim_of,
    claimed,
    doubted,
    finished,
    found,
)
from toolstile_hookspecs.testing.suite import StoreContract

PARAMS = b'{"item":"tea"}'
LONG = 3600.0
"""Seconds that do not pass during a test."""


class SettlingStore(LedgerStore, SettlesUnknown, Protocol):
    """A store that keeps to both."""


class SettlesUnknownContract(StoreContract):
    """Tests of a `LedgerStore` that is a `SettlesUnknown`; see `StoreContract` for its fixtures.

    `let_lapse` is that of `LedgerStoreContract`.

    Example:
        >>> import pytest
        >>> class TestMine(SettlesUnknownContract):
        ...     @pytest.fixture
        ...     def store(self, tmp_path):
        ...         return MyStore(tmp_path)
    """

    _gives: ClassVar[Mapping[str, type[Any] | None]] = {"store": LedgerStore, "again": LedgerStore}

    @pytest.fixture
    def let_lapse(self) -> Callable[[LedgerStore, Claim], None]:
        """Return what lets a claim lapse."""
        pytest.skip("Claims of this store cannot lapse.")

    @pytest.fixture
    def effect_id(self, store: SettlingStore) -> str:
        """Return the id of an unknown effect of the key `k`."""
        claim = claim_of()._replace(params=PARAMS)
        store.claim(claim, now=NOW)
        store.doubt("k", claim.effect_id, "It was cut off.")
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
            lambda: store.doubt("k", claim.effect_id, "It was cut off."),
            lambda: store.claim(after, now=NOW, over=claim.effect_id),
            lambda: store.finish("k", after.effect_id, RecordedResult("Done.", b"{}"), None),
            lambda: store.doubt("k", after.effect_id, "It was rolled back."),
        ):
            change()
            kept.append(found(again).claim.params)
        assert kept == [PARAMS, PARAMS, b"[1]", None, None]

    def test_only_what_is_unknown_is_unsettled(self, store: SettlingStore, effect_id: str) -> None:
        running, done, over = (
            claimed(store, "a"),
            finished(store, "b"),
            doubted(store, "c", ends=NOW),
        )
        assert [entry.claim.effect_id for entry in store.unsettled()] == [effect_id]
        for claim in (running, done, over):
            assert not store.hold(claim.key, claim.effect_id, "mine")
            assert not store.settle(claim.key, claim.effect_id, "It has not.", None)

    @pytest.mark.parametrize("is_asked", [True, False], ids=["held", "settled"])
    def test_a_claim_that_nobody_holds_is_unsettled_and_can_be(
        self,
        store: SettlingStore,
        again: SettlingStore,
        let_lapse: Callable[[LedgerStore, Claim], None],
        *,
        is_asked: bool,
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
        threads = 8
        gate = threading.Barrier(threads)

        def race(number: int) -> bool:
            own = store if number % 2 else again
            gate.wait()
            return own.hold("k", effect_id, f"{number}", at_once=True)

        with ThreadPoolExecutor(threads) as pool:
            assert sorted(pool.map(race, range(threads))) == [False] * (threads - 1) + [True]

    def test_what_is_put_off_waits_unless_it_is_asked_at_once(
        self, store: SettlingStore, again: SettlingStore, effect_id: str
    ) -> None:
        assert store.hold("k", effect_id, "first")
        assert not store.put_off("k", effect_id, "another", 0)
        assert store.put_off("k", effect_id, "first", 0)
        assert again.hold("k", effect_id, "second")
        assert again.put_off("k", effect_id, "second", LONG)
        assert not store.hold("k", effect_id, "third")
        assert store.hold("k", effect_id, "third", at_once=True)
        entry = found(store)
        assert (entry.state, entry.reason) == (EffectState.UNKNOWN, "It was cut off.")

    def test_the_hold_that_was_given_back_settles_nothing(
        self, store: SettlingStore, effect_id: str
    ) -> None:
        result = RecordedResult("Done.")
        store.hold("k", effect_id, "first")
        store.put_off("k", effect_id, "first", 0)
        assert not store.settle("k", effect_id, result, None, token="first")  # noqa: S106 - no password
        store.hold("k", effect_id, "second")
        assert not store.settle("k", effect_id, result, None, token="first")  # noqa: S106
        assert store.settle("k", effect_id, result, NOW, token="second")  # noqa: S106
        entry = found(store)
        assert (entry.state, entry.result, entry.expires_at, entry.reason) == (
            EffectState.DONE,
            result,
            NOW,
            None,
        )

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
        assert not store.put_off("k", effect_id, "mine", 0)
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
        assert not store.put_off("k", other, "mine", 0)
        assert not store.settle("k", other, "It has not.", None)
        assert not store.hold("nothing", other, "mine")
        assert store.get("k") == before
        assert store.claim(claim_of(), now=datetime(2100, 1, 1, tzinfo=UTC)) is not None
