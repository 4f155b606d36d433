"""The call of an agent's run is answered in the inbox and resumed by the run, in any process."""

from __future__ import annotations

import pytest

from toolstile import MarkdownSection, Prompt, PromptTemplate
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    Answer,
    IdempotencyConfig,
    Principal,
    RunContext,
    Status,
    ToolCall,
    tool,
)
from toolstile_hookspecs.agents.messages import Message
from toolstile_plugins.agent import Agent, RunState
from toolstile_plugins.inbox import answers_to, resume_pending, waiting_run

from .conftest import BOB, PAID, generate, inbox_of, only, pay, say


def agent_of(host, *replies, tool=pay) -> Agent:
    section = MarkdownSection(key="tills", title="Tills", tools=[tool])
    prompt = Prompt(PromptTemplate(ns="tests", key="till", sections=[section]))
    return Agent(prompt, adapter=ScriptedModel(*replies), host=host)


PAY = [("pay", {"to": "ada", "amount": 5})]


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "stored"])
def test_another_process_resumes_the_run_with_the_answer(house, is_stored):
    first = house.host(wait="pending", stored=is_stored, keyed=True)
    result, _ = agent_of(first, PAY).execute("Pay Ada.")
    (waiting,) = result.state.waiting
    assert waiting.ticket == only(inbox_of(house.tools(first))).ticket
    text = result.state.to_json()

    second = house.host(wait="pending", stored=is_stored, keyed=True)
    inbox = inbox_of(house.tools(second, session_id="other"))
    state = RunState.from_json(text)
    assert answers_to(inbox, state) == {}
    say(inbox)
    resumed, session = agent_of(second, "Paid.").resume(state, answers_to(inbox, state))
    assert (resumed.text, PAID) == ("Paid.", ["ada"])
    told = [answer.text for message in session[Message].all() for answer in message.answers]
    assert told == ["Paid 5 to ada."]
    assert list(inbox.store.questions()) == []


def test_the_call_of_a_run_is_left_to_the_run(house):
    host = house.host(wait="pending")
    result, session = agent_of(host, PAY).execute("Pay Ada.")
    tools = house.tools(host, session=session, session_id=None)
    say(inbox_of(tools))
    assert resume_pending(tools) == []
    assert result.state.waiting
    assert PAID == []


def test_the_same_call_outside_of_the_run_does_not_take_its_answer(house):
    host = house.host(wait="pending")
    agent = agent_of(host, PAY, "Paid.")
    result, session = agent.execute("Pay Ada.")
    tools = house.tools(host, session=session, session_id=None)
    inbox = inbox_of(tools)
    say(inbox)
    assert tools.dispatch(ToolCall("pay", {"to": "ada", "amount": 5})).status is Status.PENDING
    resumed, _ = agent.resume(result.state, answers_to(inbox, result.state), session=session)
    assert (resumed.text, PAID) == ("Paid.", ["ada"])


def test_what_was_shown_of_a_run_is_kept_without_another_run(house, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    top = {"approve_diff": True, "plugins": {"vfs": {"root": str(folder)}}}
    host = house.host(generate, wait="pending", top=top)
    call = [("generate", {"path": "a.txt"})]
    agent = agent_of(host, call, "Done.", tool=generate)
    result, _ = agent.execute("Generate.")
    inbox = inbox_of(house.tools(host))
    shown = say(inbox).diff
    agent.resume(result.state, answers_to(inbox, result.state))
    assert (folder / "a.txt").read_text().strip() in shown


@pytest.fixture
def charged(tmp_path):
    """A tool that a ledger knows, and what it has charged."""
    charged: list[int] = []

    @tool(requires_confirmation=True, idempotency=IdempotencyConfig(scope="call"))
    def charge(euros: int) -> str:
        """Charge a card."""
        charged.append(euros)
        return f"Charged {euros}."

    return charge, charged


def test_a_run_is_found_by_its_session_alone(house, charged):
    charge, effects = charged
    ask = [("charge", {"euros": 1}), ("charge", {"euros": 2})]
    first = agent_of(house.host(charge, wait="pending", stored=True), ask, tool=charge)
    first.execute("Charge.", session_id="s", run_context=RunContext(request_id="r-1"))

    host = house.host(charge, wait="pending", stored=True)
    tools = house.tools(host)
    agent = agent_of(host, "Charged.", tool=charge)
    state = waiting_run(tools, agent.prepare(None))
    assert (state.request_id, state.turns, len(state.waiting)) == ("r-1", 1, 2)
    assert agent.resume(state, answers_to(inbox_of(tools), state))[0].stop_reason == "pending"
    inbox = inbox_of(tools)
    one, other = inbox.waiting()
    inbox.answer(one.ticket, Answer.APPROVED, BOB, via="test")
    inbox.answer(other.ticket, Answer.DENIED, BOB, via="test", reason="Once is enough")
    state = waiting_run(tools, agent.prepare(None))
    result, session = agent.resume(state, answers_to(inbox_of(tools), state))
    assert (result.text, len(effects)) == ("Charged.", 1)
    assert waiting_run(tools, agent.prepare(None)) is None
    told = [answer.text for message in session[Message].all() for answer in message.answers]
    assert any("Once is enough" in text for text in told)


def test_the_run_of_another_principal_is_left(house, charged):
    host = house.host(charged[0], wait="pending", stored=True)
    ann, ben = Principal("test", "ann"), Principal("test", "ben")
    agent = agent_of(host, [("charge", {"euros": 1})], tool=charged[0])
    agent.execute("Charge.", session_id="s", principal=ann)
    prompt = agent.prepare(None)
    for principal, is_found in ((ben, False), (None, False), (ann, True)):
        with host.executor(session_id="s", principal=principal) as tools:
            assert (waiting_run(tools, prompt) is not None) is is_found


def test_a_session_without_a_run_that_waits_has_none(house, charged):
    host = house.host(charged[0], wait="pending", stored=True)
    agent = agent_of(host, "Hello.", tool=charged[0])
    agent.execute("Hello!", session_id="s")
    tools = house.tools(host)
    tools.dispatch(ToolCall("charge", {"euros": 1}))  # it waits, and is no run's
    assert waiting_run(tools, agent.prepare(None)) is None


def test_a_call_that_was_kept_before_its_process_died_has_its_result(house, charged):
    charge, effects = charged
    host = house.host(charge, wait="pending", stored=True)
    agent = agent_of(host, [("charge", {"euros": 1})], "Charged.", tool=charge)
    result, _ = agent.execute("Charge.", session_id="s")
    tools = house.tools(host)
    inbox = inbox_of(tools)
    say(inbox)
    # The other process keeps the call, and dies before the conversation has the result.
    (answer,) = answers_to(inbox, result.state).values()
    (call,) = (waiting.call.as_call() for waiting in result.state.waiting)
    assert tools.resume(call, answer.token, answer.answer).success

    ticket = result.state.waiting[0].ticket
    resumed, session = agent.resume(result.state, {ticket: answer})
    told = [answer.text for message in session[Message].all() for answer in message.answers]
    assert told == ["Charged 1."]
    assert (resumed.text, effects) == ("Charged.", [1])
