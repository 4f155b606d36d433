"""The conformance suites of stores of sessions, and of ledgers that record in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from toolstile_hookspecs.services.ledger import EffectState, JoinsDecision, RecordedResult
from toolstile_hookspecs.services.session_store import Entry, SessionStore
from toolstile_hookspecs.testing.ledger import HOUR, NOW, claim_of
from toolstile_hookspecs.testing.suite import StoreContract, at_once

_numbers = count(1)


def entry_of(number: int = 1, changes: str = "{}", *, has_files: bool = False) -> Entry:
    """Return an entry with a new decision."""
    return Entry(number, f"{next(_numbers):032x}", 0, changes, has_files)


def append(store: SessionStore, *entries: Entry, session_id: str = "s") -> None:
    """Append entries, each in one decision."""
    for entry in entries:
        with store.deciding(session_id) as decision:
            decision.append(entry)


class SessionStoreContract(StoreContract, store=SessionStore, again=SessionStore):
    """Tests of a store of sessions; see `StoreContract` for its fixtures."""

    def test_an_unknown_session_has_no_entries(self, store: SessionStore) -> None:
        assert list(store.after("s", 0)) == []
        assert not store.has_moved("s", 0)
        assert list(store.sessions()) == []

    def test_entries_are_read_as_they_were_appended(
        self, store: SessionStore, again: SessionStore
    ) -> None:
        entries = [entry_of(1, '{"text": "größer 🍵"}'), entry_of(2, has_files=True), entry_of(3)]
        append(store, *entries)
        assert list(again.after("s", 0)) == entries
        assert list(again.after("s", 2)) == entries[2:]

    def test_a_store_notices_that_another_has_moved_a_session(
        self, store: SessionStore, again: SessionStore
    ) -> None:
        """A look before each call must not miss an entry."""
        assert not again.has_moved("s", 0)
        append(store, entry_of())
        assert again.has_moved("s", 0)
        assert not again.has_moved("s", 1)
        assert not again.has_moved("t", 0)

    def test_a_decision_sees_the_entries_before_it(
        self, store: SessionStore, again: SessionStore
    ) -> None:
        first = entry_of()
        append(store, first)
        with again.deciding("s") as decision:
            assert list(decision.after(0)) == [first]
            assert list(decision.after(1)) == []

    def test_an_exception_undoes_a_decision(self, store: SessionStore, again: SessionStore) -> None:
        """A refusal inside leaves no entry, and the next decision succeeds."""
        entry = entry_of()

        def refuse() -> None:
            with store.deciding("s") as decision:
                decision.append(entry)
                raise RuntimeError("refused")

        with pytest.raises(RuntimeError, match="refused"):
            refuse()
        assert list(again.after("s", 0)) == []
        assert again.decided(store.key_of(entry.decision_id)) is False
        append(store, entry_of())
        assert again.has_moved("s", 0)

    def test_a_decision_shows_only_when_it_is_made(
        self, store: SessionStore, again: SessionStore
    ) -> None:
        with store.deciding("s") as decision:
            decision.append(entry_of())
            if again is not store:
                assert not again.has_moved("s", 0)
        assert again.has_moved("s", 0)

    def test_decisions_of_one_session_come_one_after_another(
        self, store: SessionStore, again: SessionStore
    ) -> None:

        def write(number: int) -> None:
            for _ in range(10):
                with (store, again)[number % 2].deciding("s") as decision:
                    decision.append(entry_of(len(decision.after(0)) + 1))

        at_once(write)
        assert [entry.number for entry in again.after("s", 0)] == [*range(1, 41)]

    def test_a_decision_is_known_for_good(self, store: SessionStore, again: SessionStore) -> None:
        """Also when its entry was condensed, and when its session was deleted."""
        entries = [entry_of(1), entry_of(2)]
        append(store, *entries)
        keys = [store.key_of(entry.decision_id) for entry in entries]
        never = store.key_of(entry_of().decision_id)
        steps: list[Callable[[], object]] = [
            lambda: None,
            lambda: store.condense("s", entry_of(2)),
            lambda: store.delete("s"),
        ]
        for step in steps:
            step()
            assert [again.decided(key) for key in keys] == [True, True]
            assert again.decided(never) is False

    def test_a_key_of_another_store_is_not_judged(self, store: SessionStore) -> None:
        """It may have been decided there."""
        assert store.decided("ledger:0123:key") is None
        assert store.decided("") is None

    def test_a_condensed_session_begins_with_its_whole_state(
        self, store: SessionStore, again: SessionStore
    ) -> None:
        entries = [entry_of(number) for number in (1, 2, 3)]
        append(store, *entries)
        whole = entry_of(2, '{"whole": true}')
        store.condense("s", whole)
        assert list(again.after("s", 0)) == [whole, entries[2]]
        assert list(again.after("s", 2)) == entries[2:]

    def test_a_session_that_has_gone_is_not_condensed(self, store: SessionStore) -> None:
        """Another host may have deleted it meanwhile."""
        store.condense("s", entry_of(3))
        assert list(store.after("s", 0)) == []

    def test_sessions_are_listed_and_deleted_each_by_itself(
        self, store: SessionStore, again: SessionStore
    ) -> None:
        append(store, entry_of(1), entry_of(2), session_id="b")
        append(store, entry_of(1), session_id="a")
        assert [(each.id, each.number) for each in again.sessions()] == [("b", 2), ("a", 1)]
        assert all(each.changed_at.tzinfo is not None for each in again.sessions())
        assert store.delete("b")
        assert not store.delete("b")
        assert [each.id for each in again.sessions()] == ["a"]

    def test_a_closed_store_opens_again(self, store: SessionStore) -> None:
        append(store, entry_of())
        store.close()
        store.close()
        assert store.has_moved("s", 0)


class JoinsDecisionContract(StoreContract, store=JoinsDecision, sessions=SessionStore):
    """Tests of a ledger's store that records in decisions, beside `LedgerStoreContract`.

    A subclass gives an empty one as `store`, and as `sessions` a session store over the same
    database.
    """

    @pytest.fixture
    def sessions(self) -> SessionStore:
        """Return a session store over the same database."""
        self._must_give("sessions", "gives a session store over the same database")

    def test_a_record_is_kept_with_the_decision(self, store: Any, sessions: SessionStore) -> None:
        """By the name of the database the host sees that it is one commit."""
        assert store.database == sessions.database
        claim, result = claim_of(), RecordedResult("Ordered.", b'{"number":1}', changes="[]")
        store.claim(claim, now=NOW)
        with sessions.deciding("s") as open_:
            assert store.finish_within(open_.connection, "k", claim.effect_id, result, NOW + HOUR)
            open_.append(entry_of())
        entry = store.get("k")
        assert (entry.claim, entry.state) == (claim, EffectState.DONE)
        assert (entry.result, entry.expires_at) == (result, NOW + HOUR)

    def test_a_record_is_undone_with_the_decision(self, store: Any, sessions: SessionStore) -> None:
        """A later contributor may refuse."""
        claim = claim_of()
        store.claim(claim, now=NOW)
        with suppress(LookupError), sessions.deciding("s") as open_:
            done = RecordedResult("Done.")
            store.finish_within(open_.connection, "k", claim.effect_id, done, None)
            raise LookupError
        entry = store.get("k")
        assert (entry.claim, entry.state) == (claim, EffectState.CLAIMED)

    def test_a_late_owner_records_in_no_decision(self, store: Any, sessions: SessionStore) -> None:
        claim = claim_of()
        store.claim(claim, now=NOW)
        store.release("k", claim.effect_id)
        with suppress(LookupError), sessions.deciding("s") as open_:
            late = (open_.connection, "k", claim.effect_id, RecordedResult("Late."), None)
            assert not store.finish_within(*late)
            if not store.finish_within(*late, refusal=LookupError()):
                raise LookupError
            open_.append(entry_of())
        assert store.get("k") is None
        assert not sessions.after("s", 0)
