"""The store of sessions in PostgreSQL keeps to the contract of such stores."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.testing import SessionStoreContract
from toolstile_hookspecs.testing.session_store import append, entry_of
from toolstile_plugins.database.session_store import PostgresSessions

from .conftest import do

pytestmark = pytest.mark.slow


@pytest.fixture
def store(stores) -> PostgresSessions:
    return stores()


@pytest.fixture
def again(stores) -> PostgresSessions:
    return stores()


class TestPostgres(SessionStoreContract):
    @pytest.fixture
    def store(self, stores) -> PostgresSessions:
        return stores()

    @pytest.fixture
    def again(self, stores) -> PostgresSessions:
        return stores()


def test_decisions_of_two_sessions_do_not_wait_for_one_another(store, again):
    with store.deciding("a") as decision, ThreadPoolExecutor(1) as pool:
        decision.append(entry_of())
        pool.submit(append, again, entry_of(), session_id="b").result(5)
        assert again.has_moved("b", 0)
    assert store.has_moved("a", 0)


def test_who_waits_too_long_for_another_decision_is_told_so(store, stores):
    impatient = stores(lock_timeout=0.1)
    with store.deciding("a") as decision:
        decision.after(0)
        with (
            pytest.raises(StateError, match=r"lock timeout\. Another transaction is in the way"),
            impatient.deciding("a") as other,
        ):
            other.after(0)
    append(impatient, entry_of(), session_id="a")


def test_a_decision_whose_answer_may_still_come_is_waited_for(store, again):
    entry = entry_of()
    key = again.key_of(entry.decision_id)
    with ThreadPoolExecutor(1) as pool:
        with store.deciding("s") as decision:
            decision.append(entry)
            # What waits is sent.
            _ = decision.connection
            asked = pool.submit(again.decided, key)
            with pytest.raises(TimeoutError):
                asked.result(0.2)
        assert asked.result(5) is True


def test_a_decision_of_a_connection_that_is_lost_is_not_made(store, again, url):
    entry = entry_of()

    def decide():
        with store.deciding("s") as decision:
            decision.append(entry)
            pid = decision.connection.info.backend_pid
            do(url, f"SELECT pg_terminate_backend({pid}, 5000)")

    with pytest.raises(StateError, match=r"cannot be used: .*, then retry\."):
        decide()
    assert again.decided(again.key_of(entry.decision_id)) is False
    append(store, entry_of())
    assert again.has_moved("s", 0)


def test_a_decision_in_which_a_statement_failed_is_not_made(store, again):
    def decide():
        with store.deciding("s") as decision:
            decision.append(entry_of())
            with pytest.raises(psycopg.Error):
                decision.connection.execute("SELECT 1 / 0")

    with pytest.raises(StateError, match="a statement of the transaction has failed"):
        decide()
    assert not again.has_moved("s", 0)


def test_what_is_read_within_a_decision_is_part_of_it(store, again):
    with store.deciding("s") as decision:
        decision.append(entry_of())
        assert store.has_moved("s", 0)
        assert not again.has_moved("s", 0)


def test_texts_that_no_database_takes_are_kept(store, again):
    append(store, entry_of(1, '"\ud800 \\u0000"'))
    (entry,) = again.after("s", 0)
    assert entry.changes == '"\ud800 \\u0000"'


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_an_id_that_cannot_be_stored_is_told_of(store, name):
    with pytest.raises(StateError, match=r"cannot be used: .*, then retry\."):
        store.has_moved(name, 0)


def test_threads_share_few_connections(stores, url):
    store = stores(pool_size=2)
    barrier = threading.Barrier(6)

    def write(number):
        barrier.wait()
        for place in range(1, 6):
            append(store, entry_of(place), session_id=str(number))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    assert len(store.sessions()) == 6
    there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'toolstile'"
    # One hears what others tell.
    assert do(url, there)[0][0] <= 2 + 1
