"""Stops of hosts that share a database alone, as hosts on several machines do."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import psycopg
import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import StateError, Status, ToolCall, ToolContext, tool

from .conftest import wait_until

pytestmark = pytest.mark.slow

REASON = "The prices are wrong."


@pytest.fixture
def host_on(url):
    """Open hosts on the database, which have no folder in common."""
    with ExitStack() as stack:

        def opened(*tools, **more):
            settings = Settings(plugins={"database": {"url": url}})
            host = Host(settings=settings, tools=tools, discover=["database", "ledger"], **more)
            return stack.enter_context(host)

        yield opened


def noting(began, go_on):
    @tool
    def note(text: str, context: ToolContext) -> str:
        """Note a text."""
        context.session[str].append(text)
        began.set()
        go_on.wait(20)
        return "Noted."

    return note


def in_thread(function):
    answers = []

    def run():
        try:
            answers.append(function())
        except StateError as error:
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return lambda: (thread.join(30), answers[0])[1]


def entries(host):
    return [info.number for info in host._sessions.store.sessions()]


def test_a_decision_elsewhere_is_refused_although_its_host_has_heard_nothing(host_on, monkeypatch):
    monkeypatch.setattr("toolstile_plugins.database.session_store._STOPS", "deaf")
    began, go_on = threading.Event(), threading.Event()
    here, there = host_on(), host_on(noting(began, go_on), timeout=None)
    monkeypatch.setattr(there.gate._store._news, "_hear_stops", lambda: None)
    with there.executor(session_id="desk") as tools:
        answer = in_thread(lambda: tools.dispatch(ToolCall("note", {"text": "a"})))
        began.wait(20)
        here.stop(REASON, by="ann")
        go_on.set()
        outcome = answer()
        assert outcome.status is Status.CANCELLED
        assert REASON in outcome.text
        assert entries(here) == []


def test_running_and_new_calls_elsewhere_are_stopped_soon(host_on):
    began, go_on = threading.Event(), threading.Event()
    here, there = host_on(), host_on(noting(began, go_on))
    with there.executor(session_id="desk") as tools:
        wait_until(there.gate._store._news._is_heard.is_set)
        answer = in_thread(lambda: tools.dispatch(ToolCall("note", {"text": "a"})))
        began.wait(20)
        here.stop(REASON, tool="note")
        stopped = time.monotonic()
        assert answer().status is Status.CANCELLED
        assert time.monotonic() - stopped < 5
        go_on.set()
        assert tools.dispatch(ToolCall("note", {"text": "a"})).status is Status.DENIED
        here.go()
        wait_until(lambda: tools.dispatch(ToolCall("note", {"text": "a"})).success)


def test_a_stop_waits_for_decisions_elsewhere_and_outlives_its_host(host_on, url):
    here, there = host_on(), host_on()
    store = there.gate._store
    with store.deciding("desk") as decision:
        assert decision.after(0) == []
        stopping = in_thread(lambda: here.stop(REASON))
        wait_until(lambda: store.stops() != "")
        time.sleep(0.3)
        assert here.gate.stops() == ()
    assert stopping() is None
    assert [stop.reason for stop in host_on().stops()] == [REASON]


def test_a_decision_that_hangs_elsewhere_is_reported(host_on, url):
    here, there = host_on(), host_on()
    with there.gate._store.deciding("desk") as decision:
        assert decision.after(0) == []
        started = time.monotonic()
        with pytest.raises(StateError, match="Another transaction is in the way"):
            here.stop(REASON)
        assert time.monotonic() - started < 9
    # It is in force all the same.
    assert [stop.reason for stop in there.stops()] == [REASON]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM toolstile_stops").fetchone() == (1,)
