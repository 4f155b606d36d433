"""The store of sessions in a SQLite file keeps to the contract of such stores."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.testing import SessionStoreContract
from toolstile_hookspecs.testing.session_store import append, entry_of
from toolstile_plugins.sessions.sqlite import SqliteSessions


class TestSqlite(SessionStoreContract):
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / ".toolstile" / "state.db"

    @pytest.fixture
    def store(self, file: Path) -> Iterator[SqliteSessions]:
        with closing(SqliteSessions(file)) as store:
            yield store

    @pytest.fixture
    def again(self, file: Path) -> Iterator[SqliteSessions]:
        with closing(SqliteSessions(file)) as store:
            yield store

    def test_the_file_is_private_to_the_user(self, store, file):
        append(store, entry_of())
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_a_file_of_another_version_is_refused(self, store, again, file):
        append(store, entry_of())
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("UPDATE toolstile_sessions_about SET version = '2'")
        with pytest.raises(StateError, match="of version 2, which this Toolstile does not know"):
            again.after("s", 0)

    def test_a_file_that_is_no_database_is_refused_and_stays_as_it_is(self, store, file):
        file.parent.mkdir()
        file.write_text("letters")
        with pytest.raises(StateError, match=r"state\.db cannot be used: .*, then retry"):
            store.after("s", 0)
        assert file.read_text() == "letters"

    def test_a_copy_of_the_file_answers_for_the_same_decisions(self, store, tmp_path, file):
        entry = entry_of()
        append(store, entry)
        key = store.key_of(entry.decision_id)
        store.close()
        moved = tmp_path / "moved.db"
        file.rename(moved)
        with closing(SqliteSessions(moved)) as there:
            assert there.decided(key) is True

    def test_another_file_does_not_answer_for_them(self, store, tmp_path):
        entry = entry_of()
        append(store, entry)
        with closing(SqliteSessions(tmp_path / "other.db")) as other:
            assert other.decided(store.key_of(entry.decision_id)) is None
