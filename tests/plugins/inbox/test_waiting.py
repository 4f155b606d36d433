"""A call waits for the answer of a person: without a thread, and for nobody once it is given up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolstile_hookspecs import Answer, Status, ToolCall
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.inbox import resume_pending

from .conftest import BOB, PAID, House, asked, inbox_of, say, until

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")


@pytest.fixture
def tools(house: House):
    return house.tools(house.host())


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_it_goes_on_with_the_answer(tools, is_async):
    def work():
        return asyncio.run(tools.adispatch(CALL)) if is_async else tools.dispatch(CALL)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        until(inbox_of(tools).waiting)
        say(inbox_of(tools))
        outcome = running.result()
    assert (outcome.text, PAID) == ("Paid 5 to ada.", ["ada"])
    assert outcome.event.attributes["toolstile.approval_by"] == "os bob (test)"
    (kept,) = inbox_of(tools).store.questions({QuestionState.RESUMED})
    assert kept.answer.by == BOB


def test_an_expired_question_is_unanswered(house):
    tools = house.tools(house.host(expiry=60))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch, CALL)
        until(inbox_of(tools).waiting)
        house.clock.advance(61)
        outcome = running.result()
    assert outcome.status is Status.DENIED
    assert "No one answered in time." in outcome.text


def test_a_call_that_is_cancelled_withdraws_its_question(tools):
    async def cancelled():
        running = asyncio.ensure_future(tools.adispatch(CALL))
        await asked(inbox_of(tools))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(cancelled())
    until(lambda: inbox_of(tools).store.questions({QuestionState.WITHDRAWN}))
    assert inbox_of(tools).waiting() == []


def test_so_does_one_that_is_cancelled_while_the_question_is_kept(tools, monkeypatch):
    store = inbox_of(tools).store
    keep, is_kept = store.add, threading.Event()

    def add(*given):
        keep(*given)
        is_kept.set()
        time.sleep(0.05)

    monkeypatch.setattr(store, "add", add)

    async def cancelled():
        running = asyncio.ensure_future(tools.adispatch(CALL))
        await asyncio.to_thread(is_kept.wait)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(cancelled())
    (question,) = until(lambda: store.questions({QuestionState.WITHDRAWN}))
    assert (question.call_id, PAID) == (CALL.id, [])


@pytest.mark.slow
def test_many_calls_that_wait_look_for_their_answers_less_often_each(tools, monkeypatch):
    inbox, looks = inbox_of(tools), []
    look = inbox.store.get
    monkeypatch.setattr(inbox.store, "get", lambda ticket: looks.append(ticket) or look(ticket))

    async def many():
        running = [
            asyncio.ensure_future(tools.adispatch(ToolCall("pay", {"to": str(number)})))
            for number in range(50)
        ]
        await asked(inbox, 50)
        looks.clear()
        await asyncio.sleep(3)
        for call in running:
            call.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(many())
    # Each looks as soon as its question is kept, and then every 2 seconds.
    assert len(looks) <= 150


@pytest.mark.slow
def test_a_hundred_calls_wait_at_once_without_a_thread_each(tools):
    async def many():
        running = [
            asyncio.ensure_future(tools.adispatch(ToolCall("pay", {"to": str(number)})))
            for number in range(100)
        ]
        inbox = inbox_of(tools)
        questions = await asked(inbox, 100)
        threads = threading.active_count()
        for question in questions:
            inbox.answer(question.ticket, Answer.APPROVED, BOB, via="test")
        outcomes = await asyncio.gather(*running)
        return threads, [outcome.success for outcome in outcomes]

    threads, succeeded = asyncio.run(many())
    assert succeeded == [True] * 100
    assert threads < 50
    assert len(PAID) == 100


def test_nobody_goes_on_with_a_call_whose_process_still_waits(house):
    """Also where it looks for the answer later than the others do."""
    tools = house.tools(house.host(stored=True, interval=0.3))
    other = house.tools(house.host(stored=True))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch, CALL)
        until(inbox_of(tools).waiting)
        say(inbox_of(other))
        assert resume_pending(other) == []
        assert running.result().success
    assert PAID == ["ada"]


@pytest.mark.slow
def test_a_call_whose_process_died_is_taken_up_by_another(house):
    program = f"""
import os, pathlib, threading
from contextlib import ExitStack
from tests.plugins.inbox.conftest import House, inbox_of, until
from tests.plugins.inbox.test_waiting import CALL
with ExitStack() as stack:
    house = House(pathlib.Path({str(house.folder)!r}), stack)
    tools = house.tools(house.host(stored=True))
    threading.Thread(target=tools.dispatch, args=[CALL], daemon=True).start()
    until(inbox_of(tools).waiting)
    os.kill(os.getpid(), 9)
"""
    root = Path(__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert killed.returncode == -9
    tools = house.tools(house.host(stored=True))
    say(inbox_of(tools))
    # At once where it died before it held the question, else when it would have held it again.
    outcomes = resume_pending(tools)
    house.clock.advance(31)
    (outcome,) = [*outcomes, *resume_pending(tools)]
    assert (outcome.call.id, outcome.success, PAID) == ("call-1", True, ["ada"])
