"""A grant approves calls like the one that was asked about, and no more than that question did."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor
from toolstile_hookspecs import (
    Answer,
    Principal,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.approval_store import GrantRecord, QuestionState
from toolstile_plugins.approval.grants import Grant, Terms
from toolstile_plugins.inbox import resume_pending
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.inbox.seal import Seal

from .conftest import BOB, PAID, House, generate, inbox_of, only, pay

ADA = Principal("https://id.example.org", "ada", groups={"treasury"})
EVE = Principal("https://id.example.org", "eve")
WHATEVER = Terms(is_exact=False)


def grants_of(tools: Executor) -> InboxGrants:
    return tools.resources.get(InboxGrants)


def call(tools: Executor, to: str = "ada", **more: Any) -> Any:
    return tools.dispatch(ToolCall("pay", {"to": to, **more}))


def grant(tools: Executor, terms: Terms = WHATEVER, by: Principal = BOB, **more: Any) -> Grant:
    """Make a call, grant it and what is like it, and let it run."""
    assert call(tools, **more).status is Status.PENDING
    return grant_waiting(tools, terms, by)


def grant_waiting(tools: Executor, terms: Terms = WHATEVER, by: Principal = BOB) -> Grant:
    grants = grants_of(tools)
    ticket = only(grants.inbox).ticket
    grants.approve(ticket, by, terms, via="test")
    (outcome,) = resume_pending(tools, grants.inbox.store.get(ticket).principal)
    assert outcome.success
    return grants.all()[-1]


def is_asked(tools: Executor, **more: Any) -> bool:
    """Tell whether a person is asked about a call; it runs where nobody is."""
    outcome = call(tools, **more)
    assert outcome.success or outcome.status is Status.PENDING
    for question in inbox_of(tools).waiting():
        inbox_of(tools).store.end(question.ticket, QuestionState.WITHDRAWN)
    return not outcome.success


@pytest.fixture
def tools(house: House):
    return house.tools(house.host(wait="pending"))


# --- What it covers


def test_calls_like_the_one_that_was_granted_run_without_a_question(tools):
    given = grant(tools)
    outcome = call(tools, "eve", amount=7)
    assert outcome.text == "Paid 7 to eve."
    by = outcome.event.attributes["toolstile.approval_by"]
    assert by == f"os bob (grant {given.id}, test)"
    assert not inbox_of(tools).waiting()


def test_the_answer_that_grants_says_so_where_it_is_recorded(tools):
    call(tools)
    grants = grants_of(tools)
    grants.approve(only(grants.inbox).ticket, BOB, WHATEVER, via="test")
    (outcome,) = resume_pending(tools)
    (given,) = grants.all()
    reason = outcome.event.attributes["toolstile.approval_reason"]
    assert reason.startswith(f"grant {given.id}: pay, whatever its arguments, in this session")


def test_an_exact_grant_holds_for_the_same_arguments_alone(tools):
    grant(tools, Terms(is_exact=True), to="ada", amount=5)
    assert not is_asked(tools, to="ada", amount=5)
    assert is_asked(tools, to="ada", amount=6)


@tool(category="write", consequence="high", requires_confirmation=True)
def refund(to: str) -> str:
    """Refund somebody."""
    return f"Refunded {to}."


def test_another_tool_is_asked_about(house):
    tools = house.tools(house.host(pay, refund, wait="pending"))
    grant(tools)
    outcome = tools.dispatch(ToolCall("refund", {"to": "ada"}))
    assert outcome.status is Status.PENDING


@tool(name="pay", category="write", consequence="high", requires_confirmation=True)
def pay_from_elsewhere(to: str, amount: int = 1, *, context: ToolContext) -> str:
    """Pay an amount."""
    return "Paid from elsewhere."


@tool(name="pay", category="delete", consequence="high", requires_confirmation=True)
def pay_off(to: str, amount: int = 1) -> str:
    """Pay an amount."""
    return "Paid off."


@pytest.mark.parametrize("other", [pay_from_elsewhere, pay_off], ids=["code", "category"])
def test_so_is_another_one_of_its_name(house, other):
    grant(house.tools(house.host(wait="pending")))
    assert is_asked(house.tools(house.host(other, wait="pending")))
    assert not is_asked(house.tools(house.host(wait="pending")))


@pytest.mark.parametrize(
    ("scope", "same", "other_session", "other_person"),
    [
        ("session", False, True, True),
        ("principal", False, False, True),
        ("everybody", False, False, False),
    ],
)
def test_it_holds_for_those_it_names(house, scope, same, other_session, other_person):
    host = house.host(wait="pending", widest_grant="everybody")
    tools = house.tools(host, principal=ADA)
    grant(tools, Terms(is_exact=False, scope=scope))
    assert is_asked(tools) is same
    assert is_asked(house.tools(host, principal=ADA, session_id="t")) is other_session
    assert is_asked(house.tools(host, principal=EVE, session_id="t")) is other_person


def test_the_same_session_with_another_principal_is_another_one(house):
    host = house.host(wait="pending")
    grant(house.tools(host, principal=ADA))
    assert is_asked(house.tools(host, principal=EVE))


def rule(name: str, when: str, effect: str = "ask") -> dict[str, Any]:
    return {"kind": "rule", "name": name, "tools": ["pay"], "when": when, "effect": effect}


def test_a_call_that_another_policy_asks_about_is_asked_about(house):
    """A person has approved for the reasons that they read, and not for others."""
    rules = [rule("large", "args.amount > 100"), rule("strange", "args.to == 'eve'")]
    tools = house.tools(house.host(free, wait="pending", top={"policies": rules}))
    grant(tools, amount=200)
    assert not is_asked(tools, amount=300)
    assert is_asked(tools, to="eve", amount=300)
    # The other way round, one of the reasons is enough.
    grant(tools, to="eve", amount=200)
    assert not is_asked(tools, to="eve", amount=5)
    assert not is_asked(tools, amount=300)


def test_a_policy_that_took_the_place_of_one_without_a_name_is_another(house):
    large, strange = rule("", "args.amount > 100"), rule("", "args.to == 'eve'")
    rules = [large | {"reason": "It is a lot."}, strange | {"reason": "Nobody knows eve."}]
    for table in rules:
        del table["name"]
    grant(house.tools(house.host(free, wait="pending", top={"policies": rules})), amount=200)
    tools = house.tools(house.host(free, wait="pending", top={"policies": rules[::-1]}))
    assert is_asked(tools, to="eve", amount=5)
    tools = house.tools(house.host(free, wait="pending", top={"policies": rules}))
    assert not is_asked(tools, amount=300)


@tool(name="pay", category="write", consequence="high")
def free(to: str, amount: int = 1) -> str:
    """Pay an amount."""
    return f"Paid {amount} to {to}."


def test_what_a_policy_denies_by_now_stays_denied(house):
    grant(house.tools(house.host(wait="pending")))
    deny = [rule("closed", "args.amount > 100", "deny")]
    later = house.tools(house.host(wait="pending", top={"policies": deny}))
    assert call(later, amount=50).success
    assert call(later, amount=500).status is Status.DENIED


def test_of_a_diff_it_approves_only_what_was_shown_unless_whatever_comes_is_granted(house):
    """The command of the tool prints something else each time."""
    (house.folder / "work").mkdir()
    given = {"approve_diff": True, "plugins": {"vfs": {"root": str(house.folder / "work")}}}
    tools = house.tools(house.host(generate, wait="pending", top=given))
    written = ToolCall("generate", {"path": "a.txt"})
    tools.dispatch(written)
    grant_waiting(tools, Terms(is_exact=True))
    assert tools.dispatch(written).status is Status.PENDING
    grant_waiting(tools, WHATEVER)
    assert tools.dispatch(written).success
    assert tools.dispatch(ToolCall("generate", {"path": "b.txt"})).success


def test_a_call_that_waits_already_runs_when_it_is_made_again(tools):
    waits = ToolCall("pay", {"to": "eve"})
    tools.dispatch(waits)
    ticket = only(inbox_of(tools)).ticket
    tools.dispatch(ToolCall("pay", {"to": "ada"}))
    (other,) = [each for each in inbox_of(tools).waiting() if each.ticket != ticket]
    grants_of(tools).approve(other.ticket, BOB, WHATEVER, via="test")
    assert tools.dispatch(waits).success
    assert not inbox_of(tools).waiting()
    resume_pending(tools)
    assert sorted(PAID) == ["ada", "eve"]


# --- How long it holds


def test_it_ends_with_its_time(house, tools):
    grant(tools, Terms(is_exact=False, hours=2))
    house.clock.advance(2 * 3600 - 1)
    assert not is_asked(tools)
    house.clock.advance(1)
    assert is_asked(tools)
    assert grants_of(tools).all() == []


def test_it_approves_so_many_calls_and_counts_those_that_fail(shared):
    tools = shared.tools(shared.host(failing, wait="pending", stored=True))
    given = grant(tools, Terms(is_exact=False, times=3))
    assert not call(tools, "nobody").success
    assert not is_asked(tools)
    assert grants_of(tools).used(given) == 2
    assert not is_asked(tools)
    assert is_asked(tools)


@tool(name="pay", category="write", consequence="high", requires_confirmation=True)
def failing(to: str, amount: int = 1) -> str:
    """Pay an amount."""
    if to == "nobody":
        raise ValueError("Nobody is of that name.")
    return f"Paid {amount} to {to}."


PROGRAM = """
import sys, pathlib
from contextlib import ExitStack
from tests.plugins.inbox.conftest import House
from toolstile_hookspecs import ToolCall
with ExitStack() as stack:
    house = House(pathlib.Path(sys.argv[1]), stack)
    tools = house.tools(house.host(stored=True, wait="pending"))
    sys.stdin.readline()
    calls = [ToolCall("pay", {"to": "ada"}, id=f"{sys.argv[2]}-{n}") for n in range(6)]
    print(sum(tools.dispatch(call).success for call in calls))
"""


@pytest.mark.long_if(shared="sqlite")
@pytest.mark.slow
def test_of_four_processes_at_once_it_approves_exactly_so_many(shared):
    grant(shared.tools(shared.host(wait="pending", stored=True)), Terms(is_exact=False, times=9))
    root = Path(__file__).parents[3]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(shared.folder), str(number)],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    ended = [process.communicate("\n")[0] for process in processes]
    assert sum(map(int, ended)) == 9


# --- Who may grant


def test_what_cannot_be_granted_is_told_and_answers_nothing(house, subtests):
    for terms, settings, told in [
        ({"scope": "everybody"}, {}, "widest_grant in [plugins.inbox] is principal"),
        ({"scope": "session"}, {"widest_grant": "none"}, "is none"),
        ({"scope": "principal"}, {}, "has no principal"),
        ({"scope": "all"}, {}, "one of session, principal, everybody"),
        ({"times": 3}, {}, "Name a file as path in [plugins.sessions]"),
        ({"times": 0}, {}, "1 time or more"),
        ({"hours": 0}, {}, "at most 720"),
        ({"hours": 721}, {}, "at most 720"),
        ({"hours": float("nan")}, {}, "at most 720"),
        ({}, {"answerers": ({"users": ["ada"]},)}, "lets bob answer"),
    ]:
        with subtests.test(terms=terms, settings=settings, told=told):
            tools = house.tools(house.host(wait="pending", **settings))
            call(tools)
            grants = grants_of(tools)
            with pytest.raises(StateError) as refused:
                grants.approve(only(grants.inbox).ticket, BOB, Terms(**terms), via="test")
            assert told in str(refused.value)
            assert grants.all() == []


def test_who_came_second_grants_nothing(tools):
    call(tools)
    grants = grants_of(tools)
    ticket = only(grants.inbox).ticket
    grants.inbox.answer(ticket, Answer.DENIED, BOB, via="test")
    with pytest.raises(StateError, match="The first answer counts"):
        grants.approve(ticket, BOB, WHATEVER, via="test")
    assert grants.all() == []


def test_nobody_approves_their_own_calls_by_a_grant_for_everybody(house):
    host = house.host(wait="pending", four_eyes=True, widest_grant="everybody")
    tools = house.tools(host, principal=EVE)
    grant(tools, Terms(is_exact=False, scope="everybody"), by=ADA)
    assert not is_asked(tools)
    assert is_asked(house.tools(host, principal=ADA, session_id="t"))


def test_it_ends_when_the_rules_of_now_do_not_allow_it(house):
    grant(house.tools(house.host(wait="pending")))
    for rules in ({"answerers": ({"users": ["ada"]},)}, {"widest_grant": "none"}):
        assert is_asked(house.tools(house.host(wait="pending", **rules)))


# --- Revoked, and attacked


def test_a_revoked_grant_approves_nothing_any_more(tools):
    given = grant(tools)
    assert grants_of(tools).revoke(given.id, BOB) == given
    assert is_asked(tools)
    with pytest.raises(StateError, match="no grant"):
        grants_of(tools).revoke(given.id, BOB)


def test_nor_does_one_that_is_written_into_the_file_again(house, tools):
    """As by a program that can write the questions, and not the key."""
    given = grant(tools)
    store = inbox_of(tools).store
    (kept,) = store.grants()
    grants_of(tools).revoke(given.id, BOB)
    store.grant(kept)
    assert is_asked(tools)
    assert (house.folder / "inbox" / "inbox.revoked").stat().st_mode & 0o777 == 0o600


def test_nor_under_another_name_or_with_another_time(house, tools):
    given = grant(tools, Terms(is_exact=False, hours=1))
    store = inbox_of(tools).store
    (kept,) = store.grants()
    grants_of(tools).revoke(given.id, BOB)
    later = house.clock.now() + timedelta(hours=9)
    store.grant(GrantRecord("another", later, kept.sealed))
    assert is_asked(tools)


@pytest.mark.parametrize("forged", ["grant", "answer", "letters"])
def test_a_forged_grant_approves_nothing(house, tools, forged, caplog):
    grant(tools)
    seal = inbox_of(tools).seal
    (kept,) = inbox_of(tools).store.grants()
    sealed = {
        # Sealed with a key of its own, or with the right one for something else.
        "grant": Seal(house.folder / "own.key").seal_grant(seal.grant_of(kept)),
        "answer": inbox_of(tools).store.questions({QuestionState.RESUMED})[0].sealed,
        "letters": b"letters",
    }[forged]
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        file.execute("UPDATE toolstile_grants SET sealed = ?", (sealed,))
    assert is_asked(tools)
    assert "is not genuine. It approves nothing." in caplog.text


def test_a_question_is_not_made_wider_before_it_is_granted(house, tools):
    call(tools)
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        file.execute(
            "UPDATE toolstile_questions SET question = json_set(question, '$.asked_by', json(?))",
            ('["pay requires confirmation.", "large"]',),
        )
    grants = grants_of(tools)
    with pytest.raises(StateError, match="was altered"):
        grants.approve(only(grants.inbox).ticket, BOB, WHATEVER, via="test")
    assert grants.all() == []
