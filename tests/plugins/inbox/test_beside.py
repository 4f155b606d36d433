"""People at the terminal and at MCP clients are asked while the question stands in the inbox."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.pseudo_terminal import terminals

from toolstile_hookspecs import Answer, ToolCall, tool
from toolstile_hookspecs.services.approval_store import Question, QuestionState
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.inbox.inbox import Inbox

from .conftest import BOB, PAID, House, generate, inbox_of, only, pay, until
from .people import PEOPLE, AtTerminal, Person
from .ways import TILLS

TOLD = {
    "approved": "Paid 5 to ada.",
    "denied": "A person did not approve pay",
    "edited": "Paid 2 to eve.",
}


@pytest.fixture(params=PEOPLE)
def person(request: pytest.FixtureRequest, house: House) -> Iterator[Person]:
    made = PEOPLE[request.param](house)
    yield made
    made.close()


@pytest.fixture
def opened(house: House, person: Person):
    """Opens a host that asks the person, and gives it with a look into the inbox."""

    def opened(*tools: Any, top: Any = None, **inbox: Any) -> Any:
        top = top or {}
        top = {**top, "plugins": {"mcp": {}, **top.get("plugins", {})}}
        given = {"ask": [person.via], "stored": True, **inbox}
        host = house.host(*tools, top=top, **given)
        return host, inbox_of(house.tools(host, session_id="looking on"))

    return opened


def matrix() -> list[Any]:
    """Each person with each answer, both where the call waits and where it ends for now."""
    return [
        pytest.param(
            name,
            answer,
            wait,
            id=f"{name}-{answer}-{wait}",
            marks=[pytest.mark.slow] * (wait == "pending" or answer == "edited"),
        )
        for name, of in PEOPLE.items()
        for answer in TOLD
        if answer in of.offers
        for wait in ("answer", "pending")
    ]


def kept(inbox: Inbox) -> Question:
    """Return the one question that was asked, whatever became of it."""
    (question,) = inbox.store.questions(set(QuestionState))
    return question


# --- Answers


@pytest.mark.parametrize(("person", "answer", "wait"), matrix(), indirect=["person"])
def test_the_call_goes_on_with_the_answer_which_is_kept(person, opened, answer, wait):
    host, inbox = opened(wait=wait)
    running = person.call(host)
    until(inbox.waiting)
    person.say(answer)
    assert TOLD[answer] in running.result()
    question = kept(inbox)
    assert question.state is QuestionState.RESUMED
    given = question.answer
    assert (given.answer, given.by.id, given.via) == (answer, person.by, person.via)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["approved", "denied"])
def test_what_a_command_did_is_kept_as_it_was_shown_or_not_at_all(person, opened, answer, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    top = {"approve_diff": True, "plugins": {"vfs": {"root": str(folder)}}}
    host, inbox = opened(generate, top=top)
    running = person.call(host, "generate", path="a.txt")
    until(inbox.waiting)
    person.say(answer)
    running.result()
    written = [file.read_text().strip() for file in folder.glob("*.txt")]
    # Each run of the command prints something else.
    assert [text in kept(inbox).diff for text in written] == [True] * (answer == "approved")


@pytest.mark.parametrize("answer", ["denied", pytest.param("approved", marks=pytest.mark.slow)])
def test_an_answer_from_elsewhere_takes_the_question_back(person, opened, answer):
    host, inbox = opened()
    running = person.call(host)
    until(person.is_asked)
    question = inbox.answer(only(inbox).ticket, Answer(answer), BOB, via="console")
    told = person.told()
    assert TOLD[answer] in running.result()
    assert f"pay {question.ticket} was {answer} by bob" in told or person.via == "mcp"
    assert ["ada"] * (answer == "approved") == PAID
    assert kept(inbox).answer.by == BOB


@pytest.mark.slow
def test_of_two_answers_at_once_one_counts(person, opened):
    host, inbox = opened()
    running = person.call(host)
    until(person.is_asked)
    ticket = only(inbox).ticket
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(inbox.answer, ticket, Answer.DENIED, BOB, via="console")
        person.say("approved")
    was_first = elsewhere.exception() is None
    assert TOLD["denied" if was_first else "approved"] in running.result()
    assert (kept(inbox).answer.by == BOB) is was_first
    assert len(PAID) == (not was_first)


# --- No answer


@pytest.mark.slow
def test_a_question_that_the_person_leaves_waits_for_others(person, opened):
    host, inbox = opened(wait="answer")
    running = person.call(host)
    person.leave()
    question = only(inbox)
    if person.ends_call:
        assert f"A person will answer question {question.ticket}" in running.result()
        running = person.call(host)
    inbox.answer(question.ticket, Answer.APPROVED, BOB, via="console")
    if person.ends_call:
        person.say("approved")
    assert running.result() == "Paid 5 to ada."
    assert PAID == ["ada"]


@pytest.mark.slow
def test_or_the_call_ends_for_now(person, opened):
    host, inbox = opened(wait="pending")
    running = person.call(host)
    person.leave()
    question = only(inbox)
    assert f"A person will answer question {question.ticket}" in running.result()
    inbox.answer(question.ticket, Answer.APPROVED, BOB, via="console")
    assert person.call(host).result() == "Paid 5 to ada."
    assert PAID == ["ada"]


@pytest.mark.slow
def test_a_question_that_expires_is_answered_by_nobody(person, opened, house):
    host, inbox = opened(expiry=60)
    running = person.call(host)
    until(person.is_asked)
    house.clock.advance(61)
    person.told()
    assert "No one answered in time." in running.result()
    assert kept(inbox).answer is None


def test_a_call_that_is_cancelled_takes_its_question_back(person, opened):
    host, inbox = opened()
    running = person.call(host)
    until(person.is_asked)
    if person.ends_call:
        # The call has ended, and nobody cancels it any more; the question may be withdrawn.
        inbox.store.end(only(inbox).ticket, QuestionState.WITHDRAWN)
        person.say("approved")
        assert "is withdrawn and takes no more answers" in running.result()
    else:
        person.cancel()
        person.told()
        wait([running])
    until(lambda: kept(inbox).state is QuestionState.WITHDRAWN)
    assert PAID == []


# --- Who is asked


@pytest.mark.parametrize("wait", ["answer", pytest.param("pending", marks=pytest.mark.slow)])
def test_who_may_not_answer_is_not_asked(person, opened, wait):
    host, inbox = opened(wait=wait, answerers=[{"users": ["bob"]}])
    running = person.call(host)
    question = until(inbox.waiting)[0]
    if wait == "pending":
        assert f"A person will answer question {question.ticket}" in running.result()
    inbox.answer(question.ticket, Answer.APPROVED, BOB, via="console")
    if wait == "pending":
        running = person.call(host)
    assert running.result() == "Paid 5 to ada."
    assert not person.is_asked()


@pytest.mark.slow
def test_nobody_is_asked_beside_unless_the_settings_say_so(person, opened):
    host, _ = opened(ask=[], wait="pending")
    assert "A person will answer question" in person.call(host).result()
    assert not person.is_asked()


@pytest.mark.parametrize("person", ["terminal", "client"], indirect=True)
def test_a_turn_is_asked_about_row_by_row(person, opened, house):
    @tool
    def pay_all(names: list[str]) -> str:
        """Pay in one turn, as an agent within the tool does."""
        calls = [ToolCall("pay", {"to": name, "amount": 5}) for name in names]
        return " ".join(sorted(outcome.status for outcome in tools.dispatch_all(calls)))

    host, inbox = opened(pay, pay_all, top={"approve_by": "turn"})
    tools = house.tools(host, session_id="within")
    running = person.call(host, "pay_all", names=["ada", "eve", "ada"])
    for answer in ("approved", "denied", "approved"):
        person.say(answer)
    assert running.result() == "denied succeeded succeeded"
    rows = inbox.store.questions({*QuestionState})
    assert len({row.turn for row in rows}) == 1
    assert {row.answer.via for row in rows} == {person.via}
    assert len(PAID) == 2


# --- The terminal


@pytest.fixture
def at(house: House) -> Iterator[AtTerminal]:
    made = AtTerminal(house)
    yield made
    made.close()


def test_always_is_a_grant(at, house):
    host = house.host(ask=["terminal"])
    running = at.call(host)
    at.say("always")
    assert running.result() == at.call(host).result() == "Paid 5 to ada."
    grants = house.tools(host).resources.get(InboxGrants)
    (grant,) = grants.all()
    assert (grant.via, grant.by.id, grant.digest) == ("terminal", at.by, None)


@pytest.mark.slow
def test_a_grant_that_nobody_may_give_is_told_and_the_question_asked_again(at, house):
    host = house.host(ask=["terminal"], widest_grant="none")
    running = at.call(host)
    at.say("always")
    at.expect("widest_grant in [plugins.inbox] is none.")
    at.say("approved")
    assert running.result() == "Paid 5 to ada."
    assert list(house.tools(host).resources.get(InboxGrants).all()) == []


@pytest.mark.slow
def test_a_question_that_waits_for_its_turn_and_is_answered_elsewhere_is_never_shown(at, house):
    host = house.host(ask=["terminal"])
    inbox = inbox_of(house.tools(host, session_id="looking on"))
    first = at.call(host)
    until(at.is_asked)
    second = at.call(host, to="eve")
    question = until(lambda: [each for each in inbox.waiting() if "eve" in each.arguments])[0]
    inbox.answer(question.ticket, Answer.APPROVED, BOB, via="console")
    assert second.result() == "Paid 5 to eve."
    at.say("approved")
    assert first.result() == "Paid 5 to ada."
    assert "eve" not in at.screen


@pytest.mark.slow
@pytest.mark.parametrize(
    "here",
    [
        pytest.param(True, id="at the terminal", marks=pytest.mark.long),
        pytest.param(False, id="elsewhere"),
    ],
)
def test_a_call_of_another_process_is_asked_about_there_and_here(house, here):
    folder = house.folder
    (folder / "tills.py").write_text(TILLS, encoding="utf-8")
    (folder / "toolstile.toml").write_text(
        'approver = "inbox"\nplugin_files = ["tills.py"]\n\n[plugins.inbox]\n'
        f'path = "{folder / "inbox" / "inbox.db"}"\nask = ["terminal"]\n',
        encoding="utf-8",
    )
    call = {"name": "pay", "arguments": {"to": "ada", "amount": 5}}
    (folder / "calls.jsonl").write_text(json.dumps(call), encoding="utf-8")
    house.clock.advance((datetime.now(UTC) - house.clock.now()).total_seconds())
    inbox = inbox_of(house.tools(house.host()))
    with terminals() as started:
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        other = started("run", "calls.jsonl", cwd=folder, env=env)
        if here:
            other.answer("y")
        else:
            other.expect()
            inbox.answer(only(inbox).ticket, Answer.DENIED, BOB, via="console")
            other.expect("was denied by bob")
        status, screen = other.end()
    assert (status, "Paid 5 to ada." in screen) == ((0, True) if here else (1, False))
    assert kept(inbox).answer.via == ("terminal" if here else "console")
