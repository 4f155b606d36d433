# ruff: noqa: PT012 - a transaction is a block of several statements
"""The questions of a turn stand in the inbox with one id, each bound to its own call."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from toolstile import Executor, MarkdownSection, Prompt
from toolstile.testing import ScriptedModel
from toolstile_cli.main import main
from toolstile_hookspecs import Answer, Status, ToolCall, TransactionFailed, tool
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.agent import Agent
from toolstile_plugins.approval.beside import person
from toolstile_plugins.approval.grants import Terms
from toolstile_plugins.inbox import resume_pending
from toolstile_plugins.inbox.grants import InboxGrants

from .conftest import BOB, PAID, House, inbox_of, until
from .test_restarts import configured

TURN = {"approve_by": "turn"}


@tool(category="write", contained=True)
def note(text: str, *, context: ToolContext) -> str:
    """Note a text."""
    context.session[str].append(text)
    return f"noted {text}"


def wishes(*names: str) -> list[ToolCall]:
    return [ToolCall("pay", {"to": name}) for name in names]


def rows(tools: Executor, count: int = 3) -> list[Any]:
    """Return the waiting rows of one turn, once all of them wait."""
    waiting = until(lambda: len(found := inbox_of(tools).waiting()) == count and found)
    assert len({row.turn for row in waiting}) == 1
    assert waiting[0].turn
    return waiting


def begun(pool: ThreadPoolExecutor, tools: Executor, *names: str) -> Future[Any]:
    return pool.submit(tools.dispatch_all, wishes(*names))


def give(tools: Executor, row: Any, answer: Answer = Answer.APPROVED) -> None:
    inbox_of(tools).answer(row.ticket, answer, BOB, via="test", digest=row.digest)


def test_rows_are_answered_in_any_order_and_two_are_equal(house: House) -> None:
    tools = house.tools(house.host(top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = begun(pool, tools, "ada", "eve", "ada")
        first, second, third = rows(tools)
        assert first.digest == third.digest
        assert first.ticket != third.ticket
        give(tools, third, Answer.DENIED)
        give(tools, first)
        assert not running.done()
        give(tools, second)
        statuses = [outcome.status for outcome in running.result()]
    assert statuses == ["succeeded", "succeeded", "denied"]
    assert sorted(PAID) == ["ada", "eve"]
    states = [inbox_of(tools).store.get(row.ticket).state for row in (first, second, third)]
    assert {*states} == {QuestionState.RESUMED}


def test_an_answered_row_is_no_other_process_while_the_turn_waits(house: House) -> None:
    tools = house.tools(house.host(top=TURN))
    other = house.tools(house.host(top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = begun(pool, tools, "ada", "eve")
        first, second = rows(tools, 2)
        give(tools, first)
        for _ in range(3):
            house.clock.advance(20)
            time.sleep(0.3)
            assert resume_pending(other) == []
        give(tools, second)
        assert [outcome.text for outcome in running.result()] == [
            "Paid 1 to ada.",
            "Paid 1 to eve.",
        ]


def test_a_granted_row_is_not_asked_about(house: House) -> None:
    tools = house.tools(house.host(top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = begun(pool, tools, "ada", "eve")
        first, second = rows(tools, 2)
        grants: InboxGrants = tools.resources.get(InboxGrants)
        grants.approve(first.ticket, BOB, Terms(times=None), via="test")
        give(tools, second)
        assert all(outcome.success for outcome in running.result())
        running = begun(pool, tools, "ada", "mia")
        (left,) = rows(tools, 1)
        assert json.loads(left.arguments)["to"] == "mia"
        give(tools, left)
        assert all(outcome.success for outcome in running.result())


def test_a_closed_host_withdraws_the_rows(house: House) -> None:
    host = house.host(top=TURN)
    tools = house.tools(host)
    with ThreadPoolExecutor(1) as pool:
        running = begun(pool, tools, "ada", "ada")
        waiting = rows(tools, 2)
        host.close()
        running.exception()
    other = house.tools(house.host(), session_id="another")
    states = {inbox_of(other).store.get(row.ticket).state for row in waiting}
    assert states == {QuestionState.WITHDRAWN}


# --- pending


def opened(house: House) -> Executor:
    return house.tools(house.host(wait="pending", stored=True, by_default=True, top=TURN))


def test_pending_rows_are_answered_and_resumed_by_other_hosts(shared: House) -> None:
    outcomes = opened(shared).dispatch_all(wishes("ada", "eve", "ada"))
    assert {outcome.status for outcome in outcomes} == {Status.PENDING}
    desk = opened(shared)
    first, second, third = rows(desk)
    give(desk, third)
    give(desk, second, Answer.DENIED)
    assert [each.text for each in resume_pending(opened(shared))][-1] == "Paid 1 to ada."
    give(desk, first)
    assert [each.text for each in resume_pending(opened(shared))] == ["Paid 1 to ada."]
    assert PAID == ["ada", "ada"]


def test_a_turn_that_comes_again_waits_with_the_same_questions(shared: House) -> None:
    tools = opened(shared)
    tools.dispatch_all(wishes("ada", "ada"))
    first, second = rows(tools, 2)
    tools.dispatch_all(wishes("ada", "ada"))
    assert {row.ticket for row in rows(tools, 2)} == {first.ticket, second.ticket}
    give(tools, first)
    give(tools, second, Answer.DENIED)
    again = tools.dispatch_all(wishes("ada", "ada"))
    assert [outcome.status for outcome in again] == ["succeeded", "denied"]


def test_the_command_lists_and_answers_a_turn(shared: House, capsys: Any) -> None:
    # The command reads the system's clock.
    shared.clock.advance(time.time() - shared.clock.now().timestamp())
    tools = opened(shared)
    tools.dispatch_all(wishes("ada", "eve"))
    turn = rows(tools, 2)[0].turn
    tools.dispatch(wishes("mia")[0])
    command = ["--config", str(configured(shared)), "approvals"]
    assert main([*command, "list"]) == 0
    assert capsys.readouterr().out.count(turn) == 2
    assert main([*command, "show", "--turn", turn]) == 0
    assert capsys.readouterr().out.count("pay (write, high") == 2
    assert main([*command, "approve", "--turn", turn, "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["turn"] for line in told} == {turn}
    (left,) = inbox_of(tools).waiting()
    assert main([*command, "deny", "--turn", turn]) == 2
    assert f"No question of the turn '{turn}' waits." in capsys.readouterr().err
    assert main([*command, "deny", left.ticket, "--turn", turn]) == 2
    assert "Name either a ticket, or a turn" in capsys.readouterr().err
    assert len(resume_pending(opened(shared))) == 2
    assert {given.by.id for given in [inbox_of(tools).store.get(told[0]["ticket"]).answer]} == {
        person().id
    }


# --- a transaction


def kept(tools: Executor) -> list[str]:
    return list(tools.session[str].all())


def noted(tools: Executor, *texts: str) -> None:
    with tools.transaction("notes", approve=True) as work:
        for text in texts:
            work.dispatch(ToolCall("note", {"text": text}))


def test_a_transaction_waits_for_its_rows(house: House) -> None:
    tools = house.tools(house.host(note, top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(noted, tools, "a", "b")
        waiting = rows(tools, 2)
        assert all("added 2" in row.diff for row in waiting)
        for row in reversed(waiting):
            give(tools, row)
        running.result()
    assert kept(tools) == ["a", "b"]
    assert {inbox_of(tools).store.get(row.ticket).state for row in waiting} == {
        QuestionState.RESUMED
    }


def test_a_transaction_without_a_refused_row_is_asked_about_again(house: House) -> None:
    tools = house.tools(house.host(note, top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(noted, tools, "a", "a")
        first, second = rows(tools, 2)
        give(tools, second, Answer.DENIED)
        give(tools, first)
        (again,) = rows(tools, 1)
        assert again.ticket not in {first.ticket, second.ticket}
        give(tools, again)
        running.result()
    assert kept(tools) == ["a"]


RUN: list[str] = []


@tool(category="write", contained=True)
def add(text: str, *, context: ToolContext) -> str:
    """Note a text, on top of those before."""
    RUN.append(text)
    context.session[str].append(f"{len(context.session[str].all())} {text}")
    return f"added {text}"


@pytest.fixture
def left(shared: House) -> Any:
    """Leave a transaction of three calls, two of them equal; return what opens other hosts."""
    RUN.clear()

    def opened() -> Executor:
        return shared.tools(
            shared.host(add, wait="pending", stored=True, by_default=True, top=TURN)
        )

    tools = opened()
    with (
        pytest.raises(TransactionFailed, match="waits for a person's approval"),
        tools.transaction("notes", approve=True) as work,
    ):
        for text in ("a", "b", "a"):
            work.dispatch(ToolCall("add", {"text": text}))
    assert kept(tools) == []
    assert RUN == ["a", "b", "a"]
    RUN.clear()
    return opened


def test_a_transaction_is_kept_as_shown_by_another_process_once_all_is_answered(left: Any) -> None:
    desk = left()
    first, second, third = rows(desk)
    assert all("added 3" in row.diff for row in (first, second, third))
    for row in (third, first):
        give(desk, row)
        assert resume_pending(left()) == []
    give(desk, second)
    outcomes = resume_pending(left())
    assert [each.text for each in outcomes] == ["added a", "added b", "added a"]
    assert kept(left()) == ["0 a", "1 b", "2 a"]
    assert RUN == []
    assert resume_pending(left()) == []
    states = {inbox_of(desk).store.get(row.ticket).state for row in (first, second, third)}
    assert states == {QuestionState.RESUMED}


def test_the_rest_of_a_transaction_is_asked_about_again(left: Any) -> None:
    desk = left()
    first, second, third = rows(desk)
    give(desk, second, Answer.DENIED)
    give(desk, first)
    give(desk, third)
    statuses = [each.status for each in resume_pending(left())]
    assert statuses == ["pending", "denied", "pending"]
    assert RUN == ["a", "a"]
    RUN.clear()
    again = rows(desk, 2)
    assert all("added 2" in row.diff for row in again)
    for row in again:
        give(desk, row)
    assert [each.text for each in resume_pending(left())] == ["added a", "added a"]
    assert kept(left()) == ["0 a", "1 a"]
    assert RUN == []


def test_a_transaction_that_comes_again_takes_its_answers(left: Any) -> None:
    tools = left()
    first, second, third = rows(tools)
    give(tools, first)

    def again() -> None:
        with tools.transaction("notes", approve=True) as work:
            for text in ("a", "b", "a"):
                work.dispatch(ToolCall("add", {"text": text}))

    with pytest.raises(TransactionFailed, match="waits for a person's approval"):
        again()
    assert {row.ticket for row in rows(tools, 2)} == {second.ticket, third.ticket}
    give(tools, second)
    give(tools, third)
    again()
    assert kept(tools) == ["0 a", "1 b", "2 a"]
    assert resume_pending(left()) == []


def test_a_turn_with_a_diff_waits_and_is_kept_as_shown(shared: House) -> None:
    RUN.clear()
    top = {**TURN, "approve_diff": True}

    @tool(category="write", contained=True, requires_confirmation=True)
    def ask(text: str, *, context: ToolContext) -> str:
        """Note a text."""
        RUN.append(text)
        context.session[str].append(text)
        return f"asked {text}"

    def opened() -> Executor:
        return shared.tools(shared.host(ask, wait="pending", stored=True, by_default=True, top=top))

    tools = opened()
    outcomes = tools.dispatch_all([ToolCall("ask", {"text": text}) for text in ("a", "b", "a")])
    assert {each.status for each in outcomes} == {Status.PENDING}
    tickets = {row.ticket for row in rows(tools)}
    assert {each.approval_ticket for each in outcomes} == tickets
    assert "together" in outcomes[0].text
    for row in rows(tools):
        give(tools, row)
    RUN.clear()
    assert [each.text for each in resume_pending(opened())] == ["asked a", "asked b", "asked a"]
    assert (kept(opened()), RUN) == (["a", "b", "a"], [])


@tool(category="write", contained=True, requires_confirmation=True)
def jot(text: str, *, context: ToolContext) -> str:
    """Note a text."""
    RUN.append(text)
    context.session[str].append(text)
    return f"jotted {text}"


JOTTING = Prompt.of("tests", "desk", [MarkdownSection(key="desk", title="Desk", tools=[jot])])


def test_a_run_waits_for_all_rows_and_keeps_them_as_shown(shared: House) -> None:
    RUN.clear()
    top = {**TURN, "approve_diff": True}

    def opened() -> Any:
        return shared.host(jot, wait="pending", stored=True, by_default=True, top=top)

    def agent(host: Any, *replies: Any) -> Any:
        return Agent[str](JOTTING, adapter=ScriptedModel(*replies), host=host)

    calls = [("jot", {"text": text}) for text in ("a", "b", "a")]
    first, _ = agent(opened(), calls).execute("Jot.", session_id="s")
    assert [outcome.call.name for outcome in first.waiting] == ["jot"] * 3
    desk = shared.tools(opened())
    first_row, *others = rows(desk)
    give(desk, first_row)
    host = opened()
    again = agent(host, "Done.").execute(None, session_id="s")[0]
    assert again.stop_reason == "pending"
    assert kept(desk) == []
    for row in others:
        give(desk, row)
    RUN.clear()
    host = opened()
    result = agent(host, "Done.").execute(None, session_id="s")[0]
    assert (result.text, RUN) == ("Done.", [])
    assert kept(shared.tools(host)) == ["a", "b", "a"]


def test_the_answer_to_a_transaction_that_died_resumes_nothing(house: House) -> None:
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(wishes("ada")[0])
    inbox = inbox_of(tools)
    (asked,) = inbox.waiting()
    call = replace(inbox.seal.call_of(asked), token="")
    inbox.ask(inbox.seal.seal_call(replace(asked, ticket="left", turn="t"), call))
    left = inbox.named("left")
    assert inbox.lost(left) is None
    give(tools, left)
    assert resume_pending(tools) == []
