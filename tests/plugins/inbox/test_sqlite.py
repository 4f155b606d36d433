"""The store of questions in a SQLite file keeps to the contract of such stores."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.testing import ApprovalStoreContract
from toolstile_hookspecs.testing.approval_store import question_of
from toolstile_plugins.inbox.sql import SqliteApprovals


class TestSqlite(ApprovalStoreContract):
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "inbox" / "questions.db"

    @pytest.fixture
    def store(self, file: Path) -> Iterator[SqliteApprovals]:
        with closing(SqliteApprovals(file)) as store:
            yield store

    @pytest.fixture
    def again(self, file: Path) -> Iterator[SqliteApprovals]:
        with closing(SqliteApprovals(file)) as store:
            yield store

    def test_the_file_is_private_to_the_user(self, store, file):
        store.add(question_of())
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_a_file_of_another_version_is_refused(self, store, again, file):
        store.add(question_of())
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("PRAGMA user_version = 4")
        with pytest.raises(StateError, match="of version 4, which this Toolstile does not know"):
            again.get("t1")

    @pytest.mark.parametrize("text", ["no JSON", "{}", "[]", "1", '{"principal": null}'])
    def test_a_question_that_cannot_be_read_is_told(self, store, again, file, text, caplog):
        store.add(question_of())
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.execute("UPDATE toolstile_questions SET question = ?", (text,))
        with pytest.raises(StateError, match="was altered and cannot be read"):
            again.get("t1")
        assert again.questions() == []
        assert "was altered and cannot be read" in caplog.text

    @pytest.mark.parametrize(("version", "later"), [(1, ["grants", "events"]), (2, ["events"])])
    def test_a_file_from_before_there_were_grants_or_events_takes_them(
        self, store, again, file, version, later
    ):
        store.add(question_of())
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            for name in later:
                connection.execute(f"DROP TABLE toolstile_{name}")
            connection.execute(f"PRAGMA user_version = {version}")
        assert list(again.grants()) == list(again.events(question_of().expires, 1)) == []
        assert again.get("t1") == question_of()
