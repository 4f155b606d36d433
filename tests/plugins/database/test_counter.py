"""The counter in PostgreSQL keeps to the contract of counters, also within decisions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.testing import CounterContract
from toolstile_hookspecs.testing.counter import take
from toolstile_hookspecs.testing.session_store import append, entry_of
from toolstile_hookspecs.testing.suite import at
from toolstile_plugins.database.session_store import PostgresCounter, PostgresSessions

from .conftest import do

pytestmark = pytest.mark.slow


@pytest.fixture
def sessions(stores) -> PostgresSessions:
    return stores()


@pytest.fixture
def counter(sessions) -> PostgresCounter:
    return sessions.counter()


@pytest.fixture
def again(stores) -> PostgresCounter:
    return stores().counter()


class TestPostgres(CounterContract):
    @pytest.fixture
    def counter(self, stores) -> PostgresCounter:
        return stores().counter()

    @pytest.fixture
    def again(self, stores) -> PostgresCounter:
        return stores().counter()


def test_what_is_reserved_within_a_decision_is_kept_with_it(sessions, counter, again):
    with sessions.deciding("s") as decision:
        assert take(counter, "a").granted
        decision.append(entry_of())
        assert again.read("k", now=at(0)) == 0
    assert again.read("k", now=at(0)) == 1


def test_what_is_reserved_within_a_decision_is_undone_with_it(sessions, counter, again):
    with suppress(LookupError), sessions.deciding("s"):
        take(counter, "a")
        raise LookupError
    assert again.read("k", now=at(0)) == 0


def test_decisions_of_two_sessions_share_a_limit_exactly(sessions, counter, again):
    def reserve(number: int) -> bool:
        source = (counter, again)[number % 2]
        with source.store.deciding(f"s{number}") as decision:
            granted = take(source, f"{number}", limit=3).granted
            decision.append(entry_of())
            return granted

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(reserve, range(8))) == 3


def test_decisions_that_count_under_other_keys_do_not_wait(sessions, counter, again):
    with sessions.deciding("s"), ThreadPoolExecutor(1) as pool:
        take(counter, "a")
        assert pool.submit(take, again, "b", key="other").result(5).granted


def test_a_reservation_that_fails_refuses_the_decision(sessions, counter, url):
    def decide():
        with sessions.deciding("s") as decision:
            do(url, "ALTER TABLE toolstile_counts RENAME TO toolstile_gone")
            with pytest.raises(StateError, match=r"cannot be used: .*, then retry\."):
                take(counter, "a")
            decision.append(entry_of())

    sessions.held.open()
    with pytest.raises(StateError, match="cannot be used"):
        decide()
    append(sessions, entry_of())


def test_what_has_expired_is_removed(counter, url):
    for key in "abc":
        take(counter, key, key=key)
    take(counter, "d", 20)
    assert do(url, "SELECT id FROM toolstile_counts") == [("d",)]


def test_fractions_are_added_as_they_are(counter):
    assert take(counter, "a", amount=0.25).granted
    assert take(counter, "b", amount=0.5).used == 0.75
