"""Counted on the wire: how often a call waits for the database, and answers that are lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest
from tests.relay import Relay

from toolstile import Host, Settings
from toolstile_hookspecs import (
    IdempotencyConfig,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.ledger import Claim, EffectState, RecordedResult
from toolstile_hookspecs.testing.approval_store import answer_of, event_of, question_of
from toolstile_hookspecs.testing.session_store import append, entry_of
from toolstile_plugins.ledger.stores.postgres import PostgresStore

from .conftest import do, wait_until

pytestmark = pytest.mark.slow

NOW = datetime.now(UTC)
DELAY = 0.005
MANY = 8
"""Psycopg prepares a statement the sixth time, which takes one more trip."""


WRITES = b"toolstile_refuse"
"""A word of the first of the statements that are sent with the commit of a decision."""
DURING: list[Callable[[], object]] = []
"""Work for the next handler."""


@tool(category="write", timeout=None, idempotency=IdempotencyConfig(scope="global"))
def pay(text: str, *, context: ToolContext) -> str:
    """Pay, and note it in the session."""
    context.session[str].append(text)
    while DURING:
        DURING.pop()()
    return text


@pytest.fixture(params=["direct", "pooled"])
def reached(request, postgres):
    """The port of the server, or that of a pooler in front of it."""
    if request.param == "direct":
        return postgres.port
    return request.getfixturevalue("pooler")


@pytest.fixture
def relay(reached):
    with closing(Relay(reached, DELAY)) as relay:
        yield relay


@pytest.fixture
def address(postgres, relay, database):
    return database.replace(f":{postgres.port}/", f":{relay.port}/")


@pytest.fixture
def tools(address):
    """An executor on a stored session, with a ledger in the same database."""
    settings = Settings.model_validate({"plugins": {"database": {"url": address}}})
    with (
        Host(settings=settings, discover=["database", "ledger", "sessions"], tools=[pay]) as host,
        host.executor(session_id="s") as tools,
    ):
        yield tools


def called(tools, text):
    return tools.dispatch(ToolCall("pay", {"text": text}))


def claim_of(key):
    return Claim(key, "pay", "0" * 64, key, "s", "c", NOW)


def counted(relay, work):
    """Return the round trips of the last of some repetitions."""
    for number in range(MANY):
        before = relay.trips
        work(number)
    return relay.trips - before


def test_claims_and_records_take_one_round_trip_each(relay, opened, address):
    store = PostgresStore(opened(address))

    def claim(number):
        assert store.claim(claim_of(f"{number}"), now=NOW) is None

    def finish(number):
        assert store.finish(f"{number}", f"{number}", RecordedResult("Done."), None)

    assert [counted(relay, claim), counted(relay, finish)] == [1, 1]


def test_a_decision_takes_two_round_trips(relay, stores, address):
    store = stores(address)

    def decide(number):
        with store.deciding("s") as decision:
            decision.after(number)
            decision.append(entry_of(number + 1))

    def decide_and_count(number):
        with store.deciding("t") as decision:
            decision.after(number)
            store.counter().reserve("k", 1, 100, None, f"{number}", now=NOW)
            decision.append(entry_of(number + 1))

    assert [counted(relay, decide), counted(relay, decide_and_count)] == [2, 4]


def test_a_call_of_a_stored_session_takes_two_besides_its_claim(relay, tools, reached, postgres):
    def call(number):
        assert called(tools, f"{number}").success

    # Through a pooler no news comes, so each look at the session asks.
    looks = 0 if reached == postgres.port else 2
    assert counted(relay, call) == looks + 1 + 2


def test_an_answer_to_a_question_takes_three_round_trips(relay, stores, address):
    store = stores(address).approvals()
    for number in range(MANY):
        store.add(question_of(f"{number}"), event_of(b"expiry", 60))

    def answer(number):
        assert store.answer(f"{number}", answer_of(), event_of(b"answer")).answer is not None

    assert counted(relay, answer) == 3


def test_a_claim_that_is_gone_has_the_server_undo_the_decision(tools, database):
    assert called(tools, "once").success
    DURING.append(lambda: do(database, "DELETE FROM toolstile_effects WHERE state = 'claimed'"))
    refused = called(tools, "taken")
    assert "its claim was taken away meanwhile" in refused.text
    assert tools.session[str].all() == ("once",)
    assert do(database, "SELECT max(number) FROM toolstile_sessions") == [(1,)]
    assert called(tools, "again").success


def test_an_entry_that_exists_undoes_the_record_as_well(stores, opened, address):
    sessions, ledger = stores(address), PostgresStore(opened(address))
    append(sessions, entry_of(1))
    ledger.claim(claim_of("k"), now=NOW)

    def decide():
        with sessions.deciding("s") as decision:
            connection, done = decision.connection, RecordedResult("Done.")
            refusal = ValueError("the claim is gone")
            assert ledger.finish_within(connection, "k", "k", done, None, refusal=refusal)
            decision.append(entry_of(1))

    with pytest.raises(StateError, match="duplicate key"):
        decide()
    assert ledger.get("k").state is EffectState.CLAIMED
    assert len(sessions.after("s", 0)) == 1


def test_a_decision_whose_answer_is_lost_was_made(tools, relay, database):
    assert called(tools, "first").success
    relay.lose_answer(WRITES)
    outcome = called(tools, "second")
    assert outcome.success, outcome.text
    assert tools.session[str].all() == ("first", "second")
    assert called(tools, "third").success
    assert do(database, "SELECT count(*), max(number) FROM toolstile_sessions") == [(3, 3)]


def test_a_decision_that_arrives_after_it_was_asked_for_is_not_made(tools, relay, database):
    assert called(tools, "first").success
    relay.lose_answer(WRITES, late=True)
    outcome = called(tools, "second")
    assert outcome.status is Status.ERROR
    assert tools.session[str].all() == ("first",)
    relay.deliver()
    # Its server process holds the lock of the session until it has read all.
    wait_until(lambda: not do(database, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory'"))
    assert do(database, "SELECT max(number) FROM toolstile_sessions") == [(1,)]
    assert called(tools, "third").success
    assert tools.session[str].all() == ("first", "third")


def test_what_waits_is_sent_again_if_an_idle_connection_was_lost(stores, address, database):
    store = stores(address)
    append(store, entry_of(1))
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    do(database, f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}")
    append(store, entry_of(2))
    assert [entry.number for entry in store.after("s", 0)] == [1, 2]


def test_a_server_that_falls_silent_in_a_decision_is_waited_for_once(relay, stores, address):
    store = stores(address)

    def decide():
        with store.deciding("s") as decision:
            decision.after(0)
            decision.connection.patience = 3
            relay.fall_silent()
            began.append(time.monotonic())
            decision.append(entry_of(1))

    began: list[float] = []
    with pytest.raises(StateError, match="it has not answered for 3 seconds"):
        decide()
    assert time.monotonic() - began[0] < 6
