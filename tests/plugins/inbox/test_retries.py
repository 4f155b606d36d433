"""A client that sends its request again while a question waits: one question, one payment."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from cryptography.fernet import Fernet

from toolstile import Host, MarkdownSection, Prompt
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    Principal,
    RunContext,
    StateError,
    Status,
    ToolCall,
)
from toolstile_hookspecs.agents.messages import Message, Role
from toolstile_hookspecs.calls import APPROVAL_TICKET
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.agent import Agent, RunResult, TicketAnswer
from toolstile_plugins.inbox import Inbox, answers_to, resume_pending
from toolstile_plugins.inbox.resumption import claimed

from .conftest import BOB, PAID, House, inbox_of, only, pay, say, until

PROMPT = Prompt.of("tests", "till", [MarkdownSection(key="till", title="Till", tools=[pay])])
WAITS_FOR_ADA = "Pay Ada."
NEWS = "What is new?"


def clerk(request):
    """Pay when asked for it; tell what came of it, and of the last request."""
    told = [answer.text for message in request.messages for answer in message.answers]
    asked = [message.text for message in request.messages if message.role is Role.USER]
    if not told:
        return [("pay", {"to": "ada"})]
    return " ".join([*told, *[text for text in asked if text == NEWS]])


class Shop:
    """Agents that share an inbox and stored sessions, of one host or each of its own."""

    def __init__(self, house: House, *, restarts: bool) -> None:
        self.house = house
        self.restarts = restarts
        self.desk = self._opened()

    def _opened(self) -> Any:
        return self.house.host(wait="pending", stored=True, by_default=True)

    @property
    def host(self) -> Any:
        return self._opened() if self.restarts else self.desk

    @property
    def agent(self) -> Agent[str]:
        return Agent[str](PROMPT, adapter=ScriptedModel(*[clerk] * 9), host=self.host)

    @property
    def inbox(self) -> Any:
        return inbox_of(self.house.tools(self.desk, session_id="another"))

    def asked(self) -> list[Any]:
        """Return all questions that were ever asked."""
        return list(self.inbox.store.questions([*QuestionState]))

    def said(self) -> list[str]:
        messages = self.house.tools(self.desk).session[Message].all()
        return [each.text for each in messages if each.role is Role.USER]


def given(request_id: str | None) -> Any:
    context = {} if request_id is None else {"run_context": RunContext(request_id=request_id)}
    return {"session_id": "s", **context}


def last(pieces: Any) -> RunResult[str]:
    return [*pieces][-1]


async def alast(pieces: Any) -> RunResult[str]:
    return [piece async for piece in pieces][-1]


ENTRIES: dict[str, Callable[..., RunResult[str]]] = {
    "execute": lambda agent, first, text, id_: agent.execute(text, **given(id_))[0],
    "aexecute": lambda agent, first, text, id_: asyncio.run(agent.aexecute(text, **given(id_)))[0],
    "run": lambda agent, first, text, id_: agent.run(text, **given(id_)),
    "stream": lambda agent, first, text, id_: last(agent.stream(text, **given(id_))),
    "astream": lambda agent, first, text, id_: asyncio.run(
        alast(agent.astream(text, **given(id_)))
    ),
    "resume": lambda agent, first, text, id_: agent.resume(first.state, {}, **given(None))[0],
    "aresume": lambda agent, first, text, id_: asyncio.run(agent.aresume(first.state, {}))[0],
}


@pytest.fixture(params=[False, True], ids=["one host", "restarts"])
def shop(house: House, request: pytest.FixtureRequest) -> Shop:
    return Shop(house, restarts=request.param)


def of(*by_default: str) -> list[Any]:
    """Return the entries, of which some are tried by default."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=[] if name in by_default else slow) for name in ENTRIES]


@pytest.fixture(params=of("execute", "astream", "resume"))
def enter(shop: Shop, request: pytest.FixtureRequest) -> Callable[..., RunResult[str]]:
    entry = ENTRIES[request.param]
    first = ENTRIES["execute"](shop.agent, None, WAITS_FOR_ADA, "r-1")
    assert first.stop_reason == "pending"

    def enter(text: str = WAITS_FOR_ADA, id_: str | None = "r-1") -> RunResult[str]:
        return entry(shop.agent, first, text, id_)

    enter.first = first  # type: ignore[attr-defined]
    return enter


def tickets(result: RunResult[str]) -> list[str]:
    assert [each.status for each in result.waiting] == [Status.PENDING] * len(result.waiting)
    assert [each.call.id for each in result.waiting] == [each.id for each in result.tool_calls]
    assert all(each.approval_token for each in result.waiting)
    return [each.ticket for each in result.state.waiting]


def approved(shop: Shop) -> str:
    say(shop.inbox)
    return "Paid 1 to ada."


def denied(shop: Shop) -> str:
    say(shop.inbox, Answer.DENIED, reason="Ada has left")
    return "did not approve pay: Ada has left."


def withdrawn(shop: Shop) -> str:
    shop.inbox.withdraw(only(shop.inbox).ticket, BOB, via="test")
    return "The question was withdrawn."


def expired(shop: Shop) -> str:
    shop.house.clock.advance(2 * 60 * 60)
    return "No one answered in time."


def test_the_same_request_has_the_same_wait(shop, enter):
    for id_ in ("r-1", None, "r-1"):
        again = enter(id_=id_)
        assert (again.stop_reason, again.note) == ("pending", "")
        assert tickets(again) == tickets(enter.first) == [only(shop.inbox).ticket]
    assert len(shop.asked()) == 1
    assert shop.said() == [WAITS_FOR_ADA]


@pytest.mark.parametrize("happens", [approved, denied, withdrawn, expired])
def test_the_same_request_takes_what_came_of_the_question(shop, enter, happens):
    told = happens(shop)
    for _ in range(2):
        result = enter()
        assert result.success
        assert told in result.text
    assert len(shop.asked()) == 1
    assert (["ada"] if happens is approved else []) == PAID
    assert shop.inbox.waiting() == []
    # Whoever asked first is told as well.
    first, _ = shop.agent.resume(enter.first.state, {}, session_id="s")
    assert first.text == result.text


@pytest.mark.parametrize("enter", of("execute", "astream")[:-2], indirect=True)
def test_another_text_under_a_used_request_id_is_not_dropped_without_a_note(shop, enter):
    waits = enter(NEWS, "r-1")
    assert tickets(waits) == tickets(enter.first)
    assert "request_id 'r-1'" in waits.note
    approved(shop)
    assert "request_id 'r-1'" in enter(NEWS, "r-1").note
    assert enter().note == ""
    assert shop.said() == [WAITS_FOR_ADA]


@pytest.mark.parametrize("happens", [approved, denied, withdrawn, expired])
@pytest.mark.parametrize("enter", of("execute", "astream")[:-2], indirect=True)
def test_another_request_is_kept_once_and_answered_after_the_question(shop, enter, happens):
    id_ = None if happens is denied else "r-2"
    for _ in range(2):
        waits = enter(NEWS, id_)
        assert waits.stop_reason == "pending"
        assert "answered after the question" in waits.note
        assert tickets(waits) == tickets(enter.first)
    assert enter().note == ""
    assert shop.said() == [WAITS_FOR_ADA, NEWS]
    told = happens(shop)
    result = enter(NEWS, id_)
    assert told in result.text
    assert result.text.endswith(NEWS)
    assert enter().text == result.text
    assert len(shop.asked()) == 1
    assert shop.said() == [WAITS_FOR_ADA, NEWS]
    first, _ = shop.agent.resume(enter.first.state, {}, session_id="s")
    assert first.text == result.text


def test_all_that_waits_is_listed_when_a_part_is_answered(shop):
    both = [("pay", {"to": "ada"}), ("pay", {"to": "eve"})]
    agent = Agent[str](PROMPT, adapter=ScriptedModel(both), host=shop.host)
    first, _ = agent.execute("Pay both.", session_id="s")
    one, other = tickets(first)
    shop.inbox.answer(one, Answer.APPROVED, BOB, via="test")
    for enter in (
        lambda: shop.agent.execute("Pay both.", session_id="s")[0],
        lambda: shop.agent.resume(first.state, answers_to(shop.inbox, first.state))[0],
        lambda: shop.agent.execute(None, session_id="s")[0],
    ):
        result = enter()
        assert (PAID, tickets(result)) == (["ada"], [other])
    shop.inbox.answer(other, Answer.APPROVED, BOB, via="test")
    assert "Paid 1 to eve." in shop.agent.execute("Pay both.", session_id="s")[0].text
    assert (PAID, len(shop.asked())) == (["ada", "eve"], 2)


# --- At once


@pytest.fixture
def two(shared: House) -> list[Any]:
    """Two hosts, which share what two processes do, and as little else."""
    return [shared.host(wait="pending", stored=True, by_default=True) for _ in range(2)]


def at_once(work: Callable[[Any], Any], hosts: list[Any]) -> list[Any]:
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(work, hosts))


def test_two_processes_with_one_request_ask_once_and_tell_both(shared, two):
    meeting = threading.Barrier(2)

    def asked_together(request):
        meeting.wait(30)
        return clerk(request)

    def ask(host):
        agent = Agent[str](PROMPT, adapter=ScriptedModel(asked_together), host=host)
        return agent.execute(WAITS_FOR_ADA, **given("r-1"))[0]

    one, other = at_once(ask, two)
    assert tickets(one) == tickets(other)
    inbox = inbox_of(shared.tools(two[0], session_id="another"))
    assert only(inbox).ticket == tickets(one)[0]

    say(inbox)
    agents = [Agent[str](PROMPT, adapter=ScriptedModel(*[clerk] * 9), host=each) for each in two]
    results = at_once(lambda agent: agent.run(WAITS_FOR_ADA, **given("r-1")), agents)
    # Each was told the result, that the call waits, or that the other one answers.
    assert {each.stop_reason.value for each in results} <= {"end", "pending", "error"}
    again = agents[1].execute(WAITS_FOR_ADA, **given("r-1"))[0]
    assert (again.text, PAID) == ("Paid 1 to ada.", ["ada"])
    messages = shared.tools(two[0]).session[Message].all()
    roles = [each.role.value for each in messages]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert len(inbox.store.questions([*QuestionState])) == 1


def test_a_reply_that_another_process_overtakes_is_left_out(shared, two):
    """The model is slow, and the client asks another process meanwhile, which is faster."""

    def slow(request):
        agent = Agent[str](PROMPT, adapter=ScriptedModel(told), host=two[1])
        agent.execute("Hello.", **given("r-1"))
        return "Too late."

    def told(request):
        return "Hello!"

    agent = Agent[str](PROMPT, adapter=ScriptedModel(slow), host=two[0])
    assert agent.execute("Hello.", **given("r-1"))[0].text == "Hello!"


def test_a_reply_whose_calls_another_process_carries_out_says_so(shared, two, monkeypatch):
    def slow(request):
        session = shared.tools(two[1]).session
        reply = ScriptedModel([("pay", {"to": "ada"})]).send(request)
        session[Message].append(reply.message)  # and it carries the call out now
        return "Too late."

    agent = Agent[str](PROMPT, adapter=ScriptedModel(slow), host=two[0])
    with pytest.raises(StateError, match="Send the request again in a moment"):
        agent.execute(WAITS_FOR_ADA, **given("r-1"))
    assert (PAID, inbox_of(shared.tools(two[0])).waiting()) == ([], [])


def test_two_processes_with_one_call_ask_once(shared, two, monkeypatch):
    meeting, ask = threading.Barrier(2), Inbox.ask

    def ask_together(inbox, question):
        meeting.wait(30)
        ask(inbox, question)

    monkeypatch.setattr(Inbox, "ask", ask_together)
    call = ToolCall("pay", {"to": "ada"})
    waits = at_once(lambda host: shared.tools(host).dispatch(call), two)
    inbox = inbox_of(shared.tools(two[0]))
    ticket = only(inbox).ticket
    assert [each.event.attributes[APPROVAL_TICKET] for each in waits] == [ticket] * 2
    say(inbox)
    outcomes = at_once(lambda host: resume_pending(shared.tools(host)), two)
    assert [each.text for found in outcomes for each in found] == ["Paid 1 to ada."]
    assert PAID == ["ada"]


def test_a_retry_while_another_process_carries_the_call_out_waits(shared, two):
    """The question is answered and claimed, and its call has not ended."""
    agents = [Agent[str](PROMPT, adapter=ScriptedModel(*[clerk] * 9), host=each) for each in two]
    first, _ = agents[0].execute(WAITS_FOR_ADA, **given("r-1"))
    inbox = inbox_of(shared.tools(two[0]))
    say(inbox)
    answers = answers_to(inbox, first.state)  # claims it
    again, _ = agents[1].execute(WAITS_FOR_ADA, **given("r-1"))
    assert tickets(again) == tickets(first)
    assert agents[0].resume(first.state, answers)[0].text == "Paid 1 to ada."
    assert agents[1].execute(WAITS_FOR_ADA, **given("r-1"))[0].text == "Paid 1 to ada."
    assert PAID == ["ada"]


def test_the_same_call_outside_of_a_run_joins_while_its_answer_is_carried_out(shared, two):
    one, other = (shared.tools(each) for each in two)
    call = ToolCall("pay", {"to": "ada"})
    assert one.dispatch(call).status is Status.PENDING
    inbox = inbox_of(one)
    ticket = say(inbox).ticket
    (due,) = claimed(inbox, inbox.store.questions())
    again = other.dispatch(call)
    assert again.event.attributes[APPROVAL_TICKET] == ticket
    assert one.resume(due.sealed.call, due.sealed.token, due.answer).success
    inbox.end(due.question, QuestionState.RESUMED)
    assert inbox.waiting() == []
    # From then on it is a new wish.
    assert other.dispatch(call).event.attributes[APPROVAL_TICKET] != ticket


def test_a_question_whose_key_is_gone_is_asked_again(shop):
    shop.agent.execute(WAITS_FOR_ADA, **given("r-1"))
    if not shop.restarts:
        return
    # Another question, which is readable, keeps the host open beside one that is not.
    (asked,) = shop.asked()
    other = shop.house.tools(shop.desk).dispatch(ToolCall("pay", {"to": "eve"}))
    assert other.status is Status.PENDING
    with closing(sqlite3.connect(shop.house.folder / "inbox" / "inbox.db")) as file, file:
        spoilt = Fernet(Fernet.generate_key()).encrypt(b"of another key")
        row = (spoilt, asked.ticket)
        file.execute("UPDATE toolstile_questions SET sealed = ? WHERE ticket = ?", row)
    again, _ = shop.agent.execute(WAITS_FOR_ADA, **given("r-1"))
    (ticket,) = tickets(again)
    assert ticket != asked.ticket
    shop.inbox.answer(ticket, Answer.APPROVED, BOB, via="test")
    assert shop.agent.execute(WAITS_FOR_ADA, **given("r-1"))[0].text == "Paid 1 to ada."


def test_a_call_that_waits_in_a_session_in_memory_is_asked_about_once():
    PAID.clear()
    asked: list[str] = []

    def later(request):
        asked.append(request.call.id)
        return ApprovalAnswer.pending("ticket-7")

    with Host(discover=False, approver=later) as host:
        agent = Agent[str](PROMPT, adapter=ScriptedModel(*[clerk] * 9), host=host)
        first, session = agent.execute(WAITS_FOR_ADA, run_context=RunContext(request_id="r-1"))
        again, _ = agent.execute(WAITS_FOR_ADA, session=session)
        other, _ = agent.execute(NEWS, session=session)
        assert tickets(first) == tickets(again) == tickets(other) == ["ticket-7"]
        assert len({each.waiting[0].approval_token for each in (first, again, other)}) == 1
        assert (again.note, "answered after" in other.note) == ("", True)
        answer = TicketAnswer(first.waiting[0].approval_token, True)
        told, _ = agent.resume(other.state, {"ticket-7": answer}, session=session)
    assert told.text == f"Paid 1 to ada. {NEWS}"
    assert (len(asked), PAID) == (1, ["ada"])


def test_the_request_of_another_principal_waits_and_takes_no_answer(house):
    host = house.host(wait="pending", stored=True, by_default=True)
    ann, ben = Principal("test", "ann"), Principal("test", "ben")
    agent = Agent[str](PROMPT, adapter=ScriptedModel(*[clerk] * 9), host=host)
    first, _ = agent.execute(WAITS_FOR_ADA, principal=ann, **given("r-1"))
    inbox = inbox_of(house.tools(host))
    assert tickets(agent.execute(NEWS, principal=ben, **given("r-2"))[0]) == tickets(first)
    say(inbox)
    again, _ = agent.execute(NEWS, principal=ben, **given("r-2"))
    assert (tickets(again), PAID) == (tickets(first), [])
    told, _ = agent.execute(WAITS_FOR_ADA, principal=ann, **given("r-1"))
    assert told.text == f"Paid 1 to ada. {NEWS}"
    assert agent.execute(NEWS, principal=ben, **given("r-2"))[0].text == told.text
    assert len(inbox.store.questions([*QuestionState])) == 1


def test_a_request_joins_the_question_for_which_a_dead_process_waited(house):
    """With `wait = "answer"`: the process died, and the same request comes to another one."""
    hosts = [house.host(stored=True, by_default=True) for _ in range(2)]
    agents = [Agent[str](PROMPT, adapter=ScriptedModel(*[clerk] * 9), host=each) for each in hosts]
    inbox = inbox_of(house.tools(hosts[0]))
    with ThreadPoolExecutor(2) as pool:
        waits = pool.submit(agents[0].execute, WAITS_FOR_ADA, **given("r-1"))
        until(inbox.waiting)
        joins = pool.submit(agents[1].execute, WAITS_FOR_ADA, **given("r-1"))
        time.sleep(0.3)
        say(inbox)
        results = [waits.result()[0], joins.result()[0]]
    # One process made the call; the other one was told so, or that it waits.
    assert {each.stop_reason for each in results} <= {"end", "pending"}
    assert {each.text for each in results} <= {"Paid 1 to ada.", ""}
    assert (PAID, len(inbox.store.questions([*QuestionState]))) == (["ada"], 1)
    for agent in agents:
        assert agent.execute(WAITS_FOR_ADA, **given("r-1"))[0].text == "Paid 1 to ada."
