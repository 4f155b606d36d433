"""A question about a call of a child is a question of its parent's session, with its path."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from toolstile import Executor
from toolstile_hookspecs import Status, ToolCall
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.approval.grants import Terms
from toolstile_plugins.inbox import resume_pending
from toolstile_plugins.inbox.cards import Cards
from toolstile_plugins.inbox.commands import lines_of
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.inbox.inbox import wire_of

from .conftest import BOB, PAID, House, generate, inbox_of, only, pay, say, until

SESSIONS = ["share", "own"]
PAY = ToolCall("pay", {"to": "ada"})


def child_of(tools: Executor, session: Any, name: str = "payer") -> Executor:
    return tools.child(name, session=session)


@pytest.mark.parametrize("session", SESSIONS)
def test_the_question_has_the_path_of_the_agent(house: House, session: Any) -> None:
    tools = house.tools(house.host(wait="pending"))
    child = child_of(tools, session)
    outcome = child.dispatch(PAY)
    assert outcome.status is Status.PENDING
    inbox = inbox_of(tools)
    question = only(inbox)
    assert (question.agent, question.session_id) == ("main/payer", "s")
    assert wire_of(question)["agent"] == "main/payer"
    assert "agent main/payer" in Cards(inbox).card(question).text
    assert "  agent      main/payer" in list(lines_of(inbox, question))
    resumed = child.resume(outcome.call, outcome.approval_token or "", True)
    assert resumed.success
    assert resumed.event.agent == "main/payer"
    assert PAID == ["ada"]
    assert len(child.session[str].all()) == 1
    assert len(tools.session[str].all()) == (1 if session == "share" else 0)


@pytest.mark.parametrize("session", SESSIONS)
def test_a_grant_for_the_session_holds_for_its_children(house: House, session: Any) -> None:
    tools = house.tools(house.host(wait="pending"))
    assert child_of(tools, session).dispatch(PAY).status is Status.PENDING
    inbox, grants = inbox_of(tools), tools.resources.get(InboxGrants)
    grants.approve(only(inbox).ticket, BOB, Terms(is_exact=False), via="test")
    for each in (child_of(tools, session, "other"), tools):
        assert each.dispatch(ToolCall("pay", {"to": "eve"})).success
    other = house.tools(house.host(wait="pending"), session_id="another")
    assert other.dispatch(ToolCall("pay", {"to": "eve"})).status is Status.PENDING


@pytest.mark.parametrize("session", SESSIONS)
def test_a_question_ends_with_the_call_that_waits_for_its_answer(
    house: House, session: Any
) -> None:
    tools = house.tools(house.host(wait="answer"))
    ended: list[Any] = []
    child = child_of(tools, session)
    thread = threading.Thread(target=lambda: ended.append(child.dispatch(PAY)))
    thread.start()
    inbox = inbox_of(tools)
    until(inbox.waiting)
    ticket = say(inbox).ticket
    thread.join(60)
    assert [each.success for each in ended] == [True]
    kept = inbox.store.get(ticket)
    assert kept is not None
    assert kept.state is QuestionState.RESUMED


@pytest.mark.parametrize("session", SESSIONS)
def test_only_the_child_itself_resumes_its_call(house: House, session: Any) -> None:
    tools = house.tools(house.host(wait="pending", stored=True, by_default=True))
    assert child_of(tools, session).dispatch(PAY).status is Status.PENDING
    say(inbox_of(tools))
    other = house.tools(house.host(wait="pending", stored=True, by_default=True))
    for each in (other, child_of(other, session, "other")):
        assert resume_pending(each) == []
    child = child_of(other, session)
    (resumed,) = resume_pending(child)
    assert (resumed.success, resumed.event.agent) == (True, "main/payer")
    assert len(child.session[str].all()) == 1
    assert len(other.session[str].all()) == (1 if session == "share" else 0)


def test_a_call_is_resumed_within_the_rights_of_its_child(house: House) -> None:
    tools = house.tools(house.host(pay, generate, wait="pending"))
    assert child_of(tools, "own").dispatch(PAY).status is Status.PENDING
    say(inbox_of(tools))
    with tools.child("payer", tools=["generate"], session="own") as narrower:
        (refused,) = resume_pending(narrower)
    assert refused.status is Status.UNKNOWN_TOOL
    (resumed,) = resume_pending(child_of(tools, "own"))
    assert resumed.success
    assert PAID == ["ada"]
