"""The store of questions in PostgreSQL keeps to the contract of such stores."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from toolstile_hookspecs.services.approval_store import EventRecord, GrantRecord
from toolstile_hookspecs.testing import ApprovalStoreContract
from toolstile_hookspecs.testing.approval_store import event_of, question_of, told
from toolstile_hookspecs.testing.session_store import entry_of
from toolstile_hookspecs.testing.suite import at
from toolstile_plugins.database.session_store import PostgresApprovals, PostgresSessions

from .conftest import do

pytestmark = pytest.mark.slow


class TestPostgres(ApprovalStoreContract):
    @pytest.fixture
    def store(self, opened: Any) -> PostgresApprovals:
        return PostgresApprovals(opened())

    @pytest.fixture
    def again(self, opened: Any) -> PostgresApprovals:
        return PostgresApprovals(opened())

    @pytest.mark.parametrize("text", ["no JSON", "{}"])
    def test_a_question_that_cannot_be_read_is_told(self, store, url, text, caplog):
        store.add(question_of())
        do(url, f"UPDATE toolstile_questions SET question = '{text}'")
        assert store.questions() == []
        assert re.search("was altered and cannot be read: .* Remove its row", caplog.text)

    def test_an_event_waits_for_the_one_that_is_being_told(self, store, again):
        """So none is told before an older one."""
        for second in (1, 2):
            store.grant(GrantRecord(f"g{second}", at(60), b""), event_of(b"%d" % second, second))
        begun, heard = threading.Event(), list[bytes]()

        def hear(event: EventRecord) -> None:
            begun.set()
            time.sleep(0.2)
            heard.append(event.sealed)

        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(store.tell, "record", at(9), hear)
            assert begun.wait(9)
            again.tell("record", at(9), lambda event: heard.append(event.sealed))
            first.result()
        assert heard == [b"1", b"2"]

    def test_what_a_listener_writes_is_kept_though_the_event_is_told_again(self, store, url):
        """It writes to its session, say: the host has moved on with that."""
        sessions = PostgresSessions(store._database)
        store.grant(GrantRecord("g", at(60), b""), event_of(b"one"))

        def hear(event: EventRecord) -> None:
            with sessions.deciding("s") as decision:
                decision.append(entry_of())
            raise OSError

        with pytest.raises(OSError):  # noqa: PT011 - the one above
            store.tell("session", at(9), hear)
        assert [entry.number for entry in sessions.after("s", 0)] == [1]
        assert told(store, listener="session") == [b"one"]
