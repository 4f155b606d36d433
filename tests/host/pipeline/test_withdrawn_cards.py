"""A transaction that is rolled back, or closed, while a person looks at its card."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import Status, TransactionFailed, tool

from .test_cards import Note, notes
from .test_kept_turns import made, note, write

PATIENCE = 20
SECOND = threading.Event()
ROLLED_BACK = threading.Event()


@tool(contained=True)
def again(text: str, context) -> str:
    """Add a note; the second run waits for the rollback."""
    if any(each.text == "moved" for each in context.session[Note].all()):
        SECOND.set()
        ROLLED_BACK.wait(PATIENCE)
    context.session[Note].append(Note(text))
    return text


class Slow:
    """Answers yes once its card is withdrawn, or the test ends."""

    def __init__(self):
        self.asked, self.done = threading.Event(), threading.Event()
        self.withdrawn = threading.Event()

    def __call__(self, request):
        return True

    def turn(self, card):
        self.asked.set()
        while not (card.withdrawn.aborted or self.done.wait(0.01)):
            pass
        if card.withdrawn.aborted:
            self.withdrawn.set()
        return True


@pytest.fixture
def person():
    made = Slow()
    yield made
    made.done.set()


@pytest.fixture
def host(person):
    settings = Settings(approve_by="turn", approve_diff=True)
    with Host(
        discover=False, tools=[note, write, again], approver=person, settings=settings
    ) as host:
        yield host


@pytest.fixture
def elsewhere():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def ends_soon(end):
    """Carry an end out, and check that it does not wait for the person."""
    begun = time.monotonic()
    end()
    assert time.monotonic() - begun < PATIENCE / 4


def waits(work, person, elsewhere):
    ended = elsewhere.submit(work.commit)
    assert person.asked.wait(PATIENCE)
    return ended


def test_a_rollback_takes_the_question_back_and_keeps_nothing(host, person, elsewhere):
    tools = host.executor()
    work = tools.transaction("trip", approve=True)
    assert work.dispatch(made("note a")[0]).success
    ended = waits(work, person, elsewhere)
    ends_soon(lambda: work.rollback("No more."))
    assert ended.result(PATIENCE) is None  # as any commit after a rollback
    assert (work.ended.status, work.ended.reason) == ("rolled_back", "No more.")
    assert person.withdrawn.wait(PATIENCE)
    assert notes(tools) == []
    assert tools.dispatch(made("note b")[0]).success


@pytest.mark.parametrize("who", ["transaction", "executor", "host", "child", "around"])
def test_what_is_closed_takes_the_question_back(who, host, person, elsewhere):
    tools = host.executor()
    child, around = tools.child("reader"), tools.transaction("all")
    maker = {"child": child, "around": around}.get(who, tools)
    work = maker.transaction("trip", approve=True)
    assert work.dispatch(made("note a")[0]).success
    ended = waits(work, person, elsewhere)
    closed = {"transaction": work, "executor": tools, "host": host, "child": child}.get(who, around)
    ends_soon(closed.close if who != "around" else around.rollback)
    with pytest.raises(
        TransactionFailed, match=r"^The transaction 'trip' was not kept: Th"
    ) as kept:
        ended.result(PATIENCE)
    assert "Internal" not in str(kept.value)
    assert ("closed" if who != "around" else "has ended") in str(kept.value)
    assert work.ended.status == "rolled_back"
    assert notes(tools) == []


def test_a_turn_takes_its_card_back_when_its_executor_is_closed(host, person, elsewhere):
    tools = host.executor()
    ended = elsewhere.submit(tools.dispatch_all, made("write a", "write b"))
    assert person.asked.wait(PATIENCE)
    ends_soon(tools.close)
    assert {each.status for each in ended.result(PATIENCE)} == {Status.CANCELLED}
    assert "This turn was not kept: This executor is closed" in ended.result()[0].text
    assert notes(tools) == []


def test_a_rollback_beside_it_on_an_event_loop(host, person):
    tools = host.executor()

    async def run():
        work = tools.transaction("trip", approve=True)
        await work.adispatch(made("note a")[0])
        ended = asyncio.create_task(work.acommit())
        await asyncio.to_thread(person.asked.wait, PATIENCE)
        await asyncio.wait_for(work.arollback("No more."), PATIENCE / 4)
        await ended
        return work.ended.reason

    assert asyncio.run(run()) == "No more."
    assert notes(tools) == []


def test_the_commit_around_it_waits_for_the_answer(host, person, elsewhere):
    tools = host.executor()
    around = tools.transaction("all")
    work = around.transaction("trip", approve=True)
    assert work.dispatch(made("note a")[0]).success
    ended = waits(work, person, elsewhere)
    threading.Timer(0.2, person.done.set).start()
    around.commit()
    assert ended.result(PATIENCE) is None
    assert notes(tools) == ["a"]


def test_a_rollback_during_a_second_run_keeps_nothing(host, elsewhere):
    SECOND.clear()
    ROLLED_BACK.clear()
    tools = host.executor()
    work = tools.transaction("trip")
    assert work.dispatch(made("again a")[0]).success
    tools.dispatch(made("note moved")[0])
    ended = elsewhere.submit(work.commit)
    assert SECOND.wait(PATIENCE)
    with ThreadPoolExecutor(1) as pool:
        rolled_back = pool.submit(work.rollback, "No more.")
        while not work._root.taken_back.aborted:
            time.sleep(0.01)
        ROLLED_BACK.set()
        rolled_back.result(PATIENCE)
    ended.result(PATIENCE)
    assert work.ended.reason == "No more."
    assert notes(tools) == ["moved"]
