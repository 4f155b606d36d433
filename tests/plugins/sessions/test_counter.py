"""The counters of stored sessions keep to the contract of counters."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.testing import CounterContract
from toolstile_hookspecs.testing.counter import take
from toolstile_hookspecs.testing.session_store import entry_of
from toolstile_hookspecs.testing.suite import at
from toolstile_plugins.sessions.counter import MemoryCounter
from toolstile_plugins.sessions.sqlite import SqliteCounter, SqliteSessions


class TestInMemory(CounterContract):
    @pytest.fixture
    def counter(self) -> MemoryCounter:
        return MemoryCounter()

    def test_what_has_expired_is_removed(self, counter):
        for number in range(3000):
            take(counter, f"{number}", number, key=f"{number}")
        assert len(counter._keys) < 1100


class TestInAFile(CounterContract):
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / ".toolstile" / "state.db"

    @pytest.fixture
    def sessions(self, file: Path) -> Iterator[SqliteSessions]:
        with closing(SqliteSessions(file)) as sessions:
            yield sessions

    @pytest.fixture
    def counter(self, sessions: SqliteSessions) -> SqliteCounter:
        return SqliteCounter(sessions)

    @pytest.fixture
    def again(self, file: Path) -> Iterator[SqliteCounter]:
        with closing(SqliteSessions(file)) as sessions:
            yield SqliteCounter(sessions)

    def test_it_counts_within_the_open_decision(self, sessions, counter, again):
        with pytest.raises(RuntimeError), sessions.deciding("s"):  # noqa: PT012
            assert take(counter, "a").granted
            assert counter.read("k", now=at(0)) == 1
            raise RuntimeError
        assert again.read("k", now=at(0)) == 0
        with sessions.deciding("s") as decision:
            assert take(counter, "a").granted
            counter.settle("a", 2)
            decision.append(entry_of())
        assert again.read("k", now=at(0)) == 2

    def test_a_reservation_that_fails_says_so_and_leaves_the_decision(self, sessions, counter):
        with sessions.deciding("s") as decision:
            decision.connection.execute("CREATE TABLE toolstile_counts (id TEXT)")
            with pytest.raises(StateError, match=r"cannot be used: .*, then retry"):
                take(counter, "a")
            decision.append(entry_of())
        assert sessions.has_moved("s", 0)

    def test_what_has_expired_is_removed(self, counter, file):
        for key in "abc":
            take(counter, key, key=key)
        take(counter, "d", 20)
        with closing(sqlite3.connect(file)) as database:
            assert database.execute("SELECT id FROM toolstile_counts").fetchall() == [("d",)]

    def test_a_file_that_is_no_database_is_refused(self, counter, file):
        file.parent.mkdir()
        file.write_text("letters")
        with pytest.raises(StateError, match=r"cannot be used: .*, then retry"):
            counter.read("k", now=datetime.now(UTC))
