"""With an address in the configuration, all hosts share what they keep there."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from pydantic import ValidationError

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    ConfigurationError,
    IdempotencyConfig,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_plugins.database import session_store
from toolstile_plugins.database.settings import DatabaseSettings
from toolstile_plugins.database.stores import DatabaseStores
from toolstile_plugins.policies import QuotaPolicy

from .conftest import do, wait_until


@tool(category="write", timeout=None)
def note(text: str, *, context: ToolContext) -> str:
    """Take a note."""
    context.session[str].append(text)
    return " ".join(context.session[str].all())


@tool(idempotency=IdempotencyConfig(scope="global"))
def order(item: str, *, context: ToolContext) -> str:
    """Order something."""
    context.session[str].append(item)
    return f"Ordered {item}."


def host(url, **tables):
    plugins = {"database": {"url": url}, **tables}
    settings = Settings.model_validate({"plugins": plugins})
    return Host(settings=settings, discover=["database", "ledger", "sessions"], tools=[note, order])


@pytest.mark.slow
def test_hosts_share_a_session(url):
    with ExitStack() as stack:
        tools = [
            stack.enter_context(stack.enter_context(host(url)).executor(session_id="s"))
            for _ in range(2)
        ]
        for number, text in enumerate("abc"):
            journal = tools[number % 2].session.journal
            wait_until(lambda journal=journal, number=number: not number or journal.is_behind)
            outcome = tools[number % 2].dispatch(ToolCall("note", {"text": text}))
            assert outcome.text == " ".join("abc"[: number + 1])


@pytest.mark.slow
def test_a_loop_goes_on_while_a_call_asks_whether_its_session_has_moved(url, monkeypatch):
    monkeypatch.setattr(session_store, "TRUST", -1.0)
    turns: list[int] = []

    async def call(tools):
        calling = asyncio.ensure_future(tools.adispatch(ToolCall("note", {"text": "a"})))
        while not calling.done():
            turns.append(1)
            await asyncio.sleep(0.01)
        return calling.result()

    with host(url) as opened, opened.executor(session_id="s") as tools:
        assert asyncio.run(call(tools)).success
        with psycopg.connect(url) as connection:
            connection.execute("LOCK TABLE toolstile_sessions IN ACCESS EXCLUSIVE MODE")
            turns.clear()
            ending = threading.Timer(0.5, connection.rollback)
            ending.start()
            assert asyncio.run(call(tools)).success
            ending.join()
    assert len(turns) > 10


@pytest.mark.slow
def test_a_call_is_recorded_in_the_transaction_that_keeps_it_and_answers_every_host(url):
    call = ToolCall("order", {"item": "mug"})
    with host(url) as opened, opened.executor(session_id="s") as tools:
        assert tools.dispatch(call).success
    ((effect, state),) = do(url, "SELECT xmin::text, state FROM toolstile_effects")
    assert (state, [(effect,)]) == ("done", do(url, "SELECT xmin::text FROM toolstile_sessions"))
    with host(url) as opened, opened.executor(session_id="t") as tools:
        again = tools.dispatch(call)
    assert (again.text, again.event.replayed) == ("Ordered mug.", True)


@pytest.mark.slow
def test_hosts_whose_rules_stand_in_another_order_do_not_wait_for_one_another(url):
    settings = Settings.model_validate({"plugins": {"database": {"url": url}}})
    rules = [QuotaPolicy(name=name, max_calls=1000, scope="global") for name in "ab"]

    def call(number: int) -> list[str]:
        policies = rules if number else rules[::-1]
        with (
            Host(settings=settings, tools=[note], policies=policies) as opened,
            opened.executor(session_id=f"s{number}") as tools,
        ):
            meeting.wait(30)
            calls = (ToolCall("note", {"text": "a"}) for _ in range(50))
            return [call.text for call in map(tools.dispatch, calls) if not call.success]

    meeting = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(call, range(2))] == [[], []]


@pytest.mark.slow
def test_of_two_hosts_that_use_one_approval_at_once_one_keeps_the_call(url):
    meeting = threading.Barrier(2)

    @tool(requires_confirmation=True, timeout=None)
    def send(text: str, *, context: ToolContext) -> str:
        """Send something."""
        meeting.wait(30)
        context.session[str].append(text)
        return text

    def later(request: ApprovalRequest) -> ApprovalAnswer:
        return ApprovalAnswer.pending()

    given = {"approval_key": "a key of these tests, of more than 32 characters"}
    settings = Settings.model_validate({"plugins": {"database": {"url": url}}, **given})
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(stack.enter_context(opened).executor(session_id="s"))
            for opened in (Host(settings=settings, tools=[send], approver=later) for _ in range(2))
        )
        waits = one.dispatch(ToolCall("send", {"text": "a"}))
        with ThreadPoolExecutor(2) as pool:
            outcomes = [
                *pool.map(
                    lambda tools: tools.resume(waits.call, waits.approval_token, True), (one, two)
                )
            ]
        assert sorted(outcome.success for outcome in outcomes) == [False, True]
        (told,) = [outcome.text for outcome in outcomes if not outcome.success]
        assert "used before: it is valid for one call. Nothing of it is kept." in told
        one.session.journal.catch_up()
        assert one.session[str].all() == ("a",)


@pytest.mark.parametrize("name", ["statement_timeout", "lock_timeout"])
def test_a_limit_that_the_server_would_take_for_none_is_refused(name):
    with pytest.raises(ValidationError, match=r"than or equal to 0\.001"):
        DatabaseSettings.model_validate({name: 0.0004})


@pytest.mark.slow
def test_the_shortest_limits_are_limits(opened):
    database = opened(statement_timeout=3600, lock_timeout=0.001)
    names = "'lock_timeout', 'idle_in_transaction_session_timeout', 'statement_timeout'"
    found = f"SELECT current_setting(name) FROM unnest(ARRAY[{names}]) AS name"
    assert database.read(found) == [("1ms",), ("1ms",), ("1h",)]


def test_an_address_that_is_none_is_told_of_without_its_password():
    with pytest.raises(ConfigurationError) as raised, host("postgres//ann:hunter2@db/x"):
        pass
    assert "plugins.database.url is not a connection string of PostgreSQL" in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.slow
def test_a_server_that_is_not_there_is_told_of_without_a_password():
    url = "postgresql://ann:hunter2@127.0.0.1:1/x"
    with host(url) as opened, pytest.raises(Exception, match="onnection refused") as raised:
        opened.executor(session_id="s")
    assert "hunter2" not in str(raised.value)


def test_the_database_is_named_without_user_and_password():
    stores = DatabaseStores(DatabaseSettings(url="postgresql://ann:hunter2@db:5433/shop"))
    assert stores.sessions().database == "postgresql://db:5433/shop"
