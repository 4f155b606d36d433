"""Hosts hear from one another that a session has moved, and ask where they may have heard less."""

from __future__ import annotations

import time
from contextlib import suppress

import psycopg
import pytest

from toolstile_hookspecs.testing.session_store import append, entry_of
from toolstile_plugins.database import session_store

from .conftest import do, wait_until

pytestmark = pytest.mark.slow

LISTENERS = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND application_name = 'toolstile'"


@pytest.fixture
def mine(stores):
    return stores()


@pytest.fixture
def other(stores):
    return stores()


def hears(store):
    """Read a session until what others tell of it is heard."""

    def is_so():
        store.after("s", 0)
        return store._news.newest("s") is not None

    wait_until(is_so)


def test_a_look_asks_the_database_for_nothing(mine, url):
    append(mine, entry_of())
    hears(mine)
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE toolstile_sessions IN ACCESS EXCLUSIVE MODE")
        # A query would wait for the lock, and then fail.
        started = time.monotonic()
        assert not mine.has_moved("s", 1)
        assert mine.has_moved("s", 0)
        assert time.monotonic() - started < 5


def test_what_another_decides_is_heard(mine, other):
    hears(mine)
    for number in range(1, 4):
        append(other, entry_of(number))
        wait_until(lambda number=number: mine.has_moved("s", number - 1))
        assert not mine.has_moved("s", number)


def test_news_that_are_none_are_not_minded(mine, other, url):
    hears(mine)
    with psycopg.connect(url, autocommit=True) as connection:
        for news in ("", "x", "1", "1:2:3"):
            connection.execute("SELECT pg_notify(%s, %s)", (session_store.CHANNEL, news))
    append(other, entry_of())
    wait_until(lambda: mine._news.newest("s") == 1)


def test_what_is_undone_is_not_told(mine, other):
    hears(mine)
    with suppress(LookupError), other.deciding("s") as decision:
        decision.append(entry_of())
        raise LookupError
    append(other, entry_of(), session_id="t")
    hears(mine)
    assert not mine.has_moved("s", 0)


def test_a_session_that_begins_anew_is_followed_from_there(mine, other):
    append(other, entry_of(1), entry_of(2))
    hears(mine)
    assert other.delete("s")
    append(other, entry_of(1))
    hears(mine)
    assert not mine.has_moved("s", 1)


def test_who_hears_nothing_any_more_asks(mine, other, url, monkeypatch):
    monkeypatch.setattr(session_store, "_PAUSE", 3600)
    hears(mine)
    do(url, f"SELECT pg_terminate_backend(pid, 5000) {LISTENERS}")
    append(other, entry_of())
    wait_until(lambda: mine.has_moved("s", 0))
    assert mine._news.newest("s") is None


def test_who_has_lost_the_connection_hears_again(mine, other, url, monkeypatch):
    monkeypatch.setattr(session_store, "_PAUSE", 0.05)
    hears(mine)
    do(url, f"SELECT pg_terminate_backend(pid, 5000) {LISTENERS}")
    hears(mine)
    append(other, entry_of())
    wait_until(lambda: mine._news.newest("s") == 1)


def test_news_that_never_came_are_asked_for_after_a_while(mine, url, monkeypatch):
    monkeypatch.setattr(session_store, "TRUST", 0.2)
    hears(mine)
    do(url, "INSERT INTO toolstile_sessions VALUES ('s', 1, 'd', 0, '{}', false)")
    wait_until(lambda: mine.has_moved("s", 0))


def test_a_store_that_is_closed_ends_its_thread(mine, url):
    hears(mine)
    mine.close()
    assert mine._news._thread is None
    wait_until(lambda: do(url, f"SELECT count(*) {LISTENERS}") == [(0,)])
    hears(mine)
