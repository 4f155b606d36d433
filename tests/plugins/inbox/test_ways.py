"""An answer means the same on each way; one that is wrong is told, and lets nothing run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.plugins.webhook.conftest import endpoint

from toolstile import Executor, Host
from toolstile.testing import FakeClock
from toolstile_hookspecs import Answer, Status, ToolCall
from toolstile_hookspecs.agents.messages import Message
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.inbox import answers_to, resume_pending
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of

from .conftest import BOB, PAID, House, asked, generate, inbox_of, only, until
from .test_runs import PAY, agent_of
from .ways import WAYS, Way

__all__ = ["endpoint"]

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")
ANSWERS = {
    "approved": (Answer.APPROVED, {}, "Paid 5 to ada."),
    "denied": (Answer.DENIED, {"reason": "Ada has left"}, "Ada has left"),
    "edited": (Answer.EDITED, {"arguments": {"to": "eve", "amount": 2}}, "Paid 2 to eve."),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, house: House, endpoint: Any, capsys: Any) -> Iterator[Way]:
    # The command line reads the system's clock.
    house.clock.advance((datetime.now(UTC) - house.clock.now()).total_seconds())
    return WAYS[request.param](house, endpoint, lambda: capsys.readouterr().err)


@pytest.fixture
def opened(house: House, way: Way):
    """Opens hosts of which the last one takes the answers."""

    def opened(*tools: Any, top: Any = None, **inbox: Any) -> tuple[Host, Executor]:
        top = top or {}
        plugins = {**way.plugins, **top.get("plugins", {})}
        given = {"wait": "pending", "stored": True, **inbox}
        host = house.host(*tools, top={**top, "plugins": plugins}, **given)
        executor = house.tools(host)
        way.begin(host, executor)
        return host, executor

    return opened


@pytest.fixture
def waiting(opened, way):
    """Have a call wait for a person who has seen it; return the executor and the question."""
    _, tools = opened()
    assert tools.dispatch(CALL).status is Status.PENDING
    question = only(inbox_of(tools))
    way.see(question)
    return tools, question


def matrix() -> list[Any]:
    """Each way with each answer that it offers."""
    return [
        pytest.param(way, answer, id=f"{way}-{answer}")
        for way in WAYS
        for answer in ANSWERS
        if answer in WAYS[way].offers
    ]


def give(way: Way, question: Any, name: str) -> str:
    """Give an answer, and return what the model is to read of it."""
    answer, more, told = ANSWERS[name]
    assert way.answer(question, answer, **more) == ""
    return told


def assert_refused(way: Way, tools: Executor, question: Any, fault: str, told: str) -> None:
    """Assert that a wrong answer lets nothing run, and is told: to the person, or to the model."""
    assert told in fault
    found = inbox_of(tools).store.get(question.ticket)
    if way.corrects:
        assert found.state is QuestionState.WAITING
        give(way, question, "approved")
    (outcome,) = resume_pending(tools)
    assert outcome.success is way.corrects
    assert way.corrects or told in outcome.text


# --- Each answer


@pytest.mark.parametrize(("way", "name"), matrix(), indirect=["way"])
def test_a_call_goes_on_with_the_answer(way, waiting, name):
    tools, question = waiting
    told = give(way, question, name)
    (outcome,) = resume_pending(tools)
    assert told in outcome.text
    assert outcome.success is (name != "denied")
    kept = inbox_of(tools).store.get(question.ticket)
    assert kept.state is QuestionState.RESUMED
    assert (kept.answer.answer, kept.answer.by.id, kept.answer.via) == (name, way.by, way.via)
    assert resume_pending(tools) == []


@pytest.mark.slow
@pytest.mark.parametrize(("way", "name"), matrix(), indirect=["way"])
def test_a_run_goes_on_with_the_answer(way, opened, house, name):
    host, _ = opened()
    result, _ = agent_of(host, PAY).execute("Pay Ada.")
    inbox = inbox_of(house.tools(host, session_id="other"))
    question = only(inbox)
    way.see(question)
    told = give(way, question, name)
    answers = answers_to(inbox, result.state)
    resumed, session = agent_of(host, "Done.").resume(result.state, answers)
    (read,) = [answer.text for message in session[Message].all() for answer in message.answers]
    assert resumed.text == "Done."
    assert told in read
    assert list(inbox.store.questions()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["approved", "denied"])
def test_what_a_command_did_is_kept_as_it_was_shown_or_not_at_all(way, opened, tmp_path, name):
    folder = tmp_path / "work"
    folder.mkdir()
    top = {"approve_diff": True, "plugins": {"vfs": {"root": str(folder)}}}
    _, tools = opened(generate, top=top)
    tools.dispatch(ToolCall("generate", {"path": "a.txt"}))
    question = only(inbox_of(tools))
    way.see(question)
    give(way, question, name)
    (outcome,) = resume_pending(tools)
    assert outcome.status is (Status.SUCCEEDED if name == "approved" else Status.DENIED)
    assert list(inbox_of(tools).store.questions()) == []
    # Each run of the command prints something else.
    kept = [file.read_text().strip() for file in folder.glob("*.txt")]
    assert [text in question.diff for text in kept] == [True] * outcome.success


@pytest.mark.slow
@pytest.mark.parametrize(("way", "name"), matrix(), indirect=["way"])
def test_an_mcp_client_that_repeats_its_call_has_the_answer(way, opened, house, name):
    host, _ = opened(top={"plugins": {"mcp": {}}})
    inbox = inbox_of(house.tools(host, session_id="other"))

    async def both() -> tuple[str, str]:
        session = ServedSession(executors_of(host)(None, None))
        server = HostServer(host, host.settings("mcp").serve, OneSession(session))
        async with Client(server.protocol) as client:
            arguments = {"to": "ada", "amount": 5}
            waits: Any = await client.session.call_tool("pay", arguments)
            question = only(inbox)
            await asyncio.to_thread(way.see, question)
            told = await asyncio.to_thread(give, way, question, name)
            assert question.ticket in waits.content[0].text
            answered: Any = await client.session.call_tool("pay", arguments)
        await server.caller.finish()
        session.end()
        return told, answered.content[0].text

    told, text = asyncio.run(both())
    assert told in text
    assert list(inbox.store.questions()) == []


# --- Restarts, and other processes


@pytest.mark.slow
@pytest.mark.parametrize(("way", "name"), matrix(), indirect=["way"])
def test_a_call_goes_on_after_a_restart(way, opened, name):
    first, tools = opened()
    tools.dispatch(CALL)
    first.close()
    _, tools = opened()
    question = only(inbox_of(tools))
    way.see(question)
    told = give(way, question, name)
    (outcome,) = resume_pending(tools)
    assert told in outcome.text


PROCESS = """
import pathlib, sys
from contextlib import ExitStack
from datetime import UTC, datetime
from tests.plugins.inbox.conftest import House
from toolstile_hookspecs import ToolCall
with ExitStack() as stack:
    house = House(pathlib.Path(sys.argv[1]), stack)
    house.clock.advance((datetime.now(UTC) - house.clock.now()).total_seconds())
    print(house.tools(house.host(stored=True)).dispatch(ToolCall("pay", {"to": "ada"})).text)
"""


@pytest.mark.slow
def test_a_call_that_waits_in_another_process_goes_on(way, opened, house):
    _, tools = opened()
    root = Path(__file__).parents[3]
    program = [sys.executable, "-c", PROCESS, str(house.folder)]
    with subprocess.Popen(program, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        (question,) = until(inbox_of(tools).waiting)
        way.see(question)
        give(way, question, "approved")
        text, _ = process.communicate()
    assert text == "Paid 1 to ada.\n"
    assert inbox_of(tools).store.get(question.ticket).state is QuestionState.RESUMED


# --- Each failure


def test_an_answer_to_what_was_not_shown_is_refused(way, waiting):
    tools, question = waiting
    other = replace(question, digest="0" * 64)
    way.see(other)
    fault = way.answer(other, Answer.APPROVED)
    way.see(question)
    assert_refused(way, tools, question, fault, "does not ask about that any more")


@pytest.mark.parametrize(
    "way", [way for way in WAYS if "edited" in WAYS[way].offers], indirect=True
)
def test_an_edit_that_does_not_fit_is_refused(way, waiting):
    tools, question = waiting
    fault = way.answer(question, Answer.EDITED, arguments={"to": "ada", "amount": "much"})
    assert_refused(way, tools, question, fault, "amount")


def test_who_comes_second_is_told_who_was_first(way, waiting):
    tools, question = waiting
    inbox_of(tools).answer(question.ticket, Answer.DENIED, BOB, via="elsewhere")
    told = way.answer(question, Answer.APPROVED)
    assert ("was denied by bob" if way.is_told else "takes no more answers") in told
    (outcome,) = resume_pending(tools)
    assert (outcome.status, PAID) == (Status.DENIED, [])


def test_an_answer_after_the_time_for_it_is_refused(way, opened, house):
    house.clock = FakeClock(datetime.now(UTC) - timedelta(seconds=3700))
    _, tools = opened()
    tools.dispatch(CALL)
    question = only(inbox_of(tools))
    way.see(question)
    house.clock.advance(3700)
    told = way.answer(question, Answer.APPROVED)
    assert ("could be answered until" if way.is_told else "takes no more answers") in told
    (outcome,) = resume_pending(tools)
    assert "No one answered in time." in outcome.text


def test_an_answer_for_a_call_that_was_cancelled_meanwhile_is_refused(way, opened):
    _, tools = opened(wait="answer")

    async def cancelled() -> Any:
        running = asyncio.ensure_future(tools.adispatch(CALL))
        (question,) = await asked(inbox_of(tools))
        await asyncio.to_thread(way.see, question)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return question

    question = asyncio.run(cancelled())
    told = way.answer(question, Answer.APPROVED)
    assert "takes no more answers" in told
    assert resume_pending(tools) == []
    assert PAID == []


def test_of_answers_on_all_ways_at_once_one_counts(way, waiting):
    tools, question = waiting
    with ThreadPoolExecutor(2) as pool:
        elsewhere = pool.submit(Way.answer, way, question, Answer.DENIED)
        here = way.answer(question, Answer.APPROVED)
        faults = [here, elsewhere.result()]
    assert sorted(map(bool, faults)) == [False, True]
    (outcome,) = resume_pending(tools)
    assert outcome.success is (here == "")
