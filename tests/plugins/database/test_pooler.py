"""Through a pooler that gives each transaction another connection, all is exact as well."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from toolstile_hookspecs.testing.counter import take
from toolstile_hookspecs.testing.session_store import append, entry_of

from .conftest import do

pytestmark = pytest.mark.slow


def test_decisions_are_exact(stores, pooled):
    sources = [stores(pooled, pool_size=4) for _ in range(2)]

    def write(number):
        source = sources[number % 2]
        for place in range(10):
            with source.deciding("s") as decision:
                there = len(decision.after(0))
                take(source.counter(), f"{number} {place}", limit=100)
                decision.append(entry_of(there + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for each in sources:
        assert [entry.number for entry in each.after("s", 0)] == [*range(1, 41)]
        assert each.sessions()[0].number == 40


def test_each_look_asks(stores, pooled):
    mine, other = stores(pooled), stores(pooled)
    for number in range(1, 8):
        mine.after("s", 0)
        append(other, entry_of(number))
        assert mine.has_moved("s", number - 1)
    assert mine._news.newest("s") is None


def test_nothing_stays_behind_on_a_connection_that_others_get(stores, pooled):
    append(stores(pooled, lock_timeout=1, statement_timeout=2), entry_of())
    for _ in range(4):
        assert do(pooled, "SHOW statement_timeout") == [("0",)]
