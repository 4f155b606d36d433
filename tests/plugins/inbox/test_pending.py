"""A call ends as pending, is answered, and is resumed: by the process that asked, or by another."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from toolstile.testing import FakeClock
from toolstile_hookspecs import Answer, Principal, Status, ToolCall, ToolContext, hookimpl, tool
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.inbox import aresume_pending, resume_pending

from .conftest import BOB, PAID, House, asked, generate, inbox_of, only, pay, say

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")


@pytest.fixture
def tools(house: House):
    return house.tools(house.host(wait="pending"))


def test_an_approved_call_runs_once(tools):
    pending = tools.dispatch(CALL)
    assert (pending.status, PAID) == (Status.PENDING, [])
    assert resume_pending(tools) == []
    say(inbox_of(tools))
    (outcome,) = resume_pending(tools)
    assert (outcome.call.id, outcome.text, PAID) == ("call-1", "Paid 5 to ada.", ["ada"])
    assert outcome.event.attributes["toolstile.approval_by"] == "os bob (test)"
    assert resume_pending(tools) == []


def test_an_answer_is_kept_while_calls_are_stopped(house):
    host = house.host(wait="pending")
    tools = house.tools(host)
    tools.dispatch(CALL)
    say(inbox_of(tools))
    host.stop("The prices are wrong.")
    for _ in range(2):
        (outcome,) = resume_pending(tools)
        assert outcome.text.startswith(
            "pay was stopped: The prices are wrong. Nothing of it has run. Its approval is not "
            "used up: it can be resumed when the stop is over."
        )
    host.go()
    (outcome,) = asyncio.run(aresume_pending(tools))
    assert (outcome.text, PAID) == ("Paid 5 to ada.", ["ada"])


def test_it_is_resumed_from_an_event_loop(tools):
    tools.dispatch(CALL)
    say(inbox_of(tools))
    (outcome,) = asyncio.run(aresume_pending(tools))
    assert outcome.success


def test_nobody_answers_in_time_so_it_is_denied_as_unanswered(house):
    tools = house.tools(house.host(wait="pending", expiry=60))
    tools.dispatch(CALL)
    house.clock.advance(60)
    (outcome,) = resume_pending(tools)
    assert outcome.status is Status.DENIED
    assert "No one answered in time." in outcome.text
    (kept,) = inbox_of(tools).store.questions({QuestionState.EXPIRED})
    assert kept.call_id == "call-1"


def test_the_same_call_does_not_ask_twice(tools):
    tools.dispatch(CALL)
    again = tools.dispatch(ToolCall("pay", {"to": "ada", "amount": 5}, id="call-2"))
    assert again.status is Status.PENDING
    assert only(inbox_of(tools)).call_id == "call-1"


def test_the_same_call_repeated_after_the_answer_runs_once(tools):
    tools.dispatch(CALL)
    say(inbox_of(tools))
    repeated = [tools.dispatch(ToolCall("pay", {"to": "ada", "amount": 5})) for _ in range(2)]
    assert [each.status for each in repeated] == [Status.SUCCEEDED, Status.PENDING]
    assert resume_pending(tools) == []
    assert PAID == ["ada"]


ADA, EVE = (Principal("app", name) for name in ("ada", "eve"))


@pytest.mark.parametrize("owner", [ADA, None], ids=["ada's", "nobody's"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_answer_is_for_nobody_elses_call(house, owner, is_async):
    """It is neither denied nor used up where another principal of the session goes on."""
    host = house.host(wait="pending")
    own = house.tools(host, principal=owner, session_id="s")
    other = house.tools(host, principal=EVE if owner else ADA, session_id="s")
    own.dispatch(CALL)
    say(inbox_of(own))
    assert other.dispatch(CALL).status is Status.PENDING

    def resume(tools, *principal):
        if is_async:
            return asyncio.run(aresume_pending(tools, *principal))
        return resume_pending(tools, *principal)

    assert resume(other) == resume(other, owner) == resume(own, EVE) == []
    (outcome,) = resume(own)
    assert outcome.success
    assert PAID == ["ada"]


def test_an_executor_with_a_principal_has_to_be_told_of_no_other(house):
    tools = house.tools(house.host(wait="pending"), principal=ADA)
    for again in ((), (ADA,)):
        tools.dispatch(CALL)
        say(inbox_of(tools))
        (outcome,) = resume_pending(tools, *again)
        assert outcome.success


def test_another_process_resumes_a_call_of_a_stored_session(shared):
    first = shared.tools(shared.host(wait="pending", stored=True))
    first.dispatch(CALL)
    second = shared.tools(shared.host(wait="pending", stored=True))
    say(inbox_of(second))
    (outcome,) = resume_pending(second)
    assert outcome.success
    assert resume_pending(first) == []
    assert (PAID, list(second.session[str].all())) == (["ada"], ["ada 5"])


def test_a_host_without_the_tool_leaves_the_call_to_others(shared):
    first = shared.tools(shared.host(wait="pending", stored=True))
    first.dispatch(CALL)
    say(inbox_of(first))
    without = shared.tools(shared.host(generate, wait="pending", stored=True))
    assert [outcome.status for outcome in resume_pending(without)] == [Status.UNKNOWN_TOOL]
    (outcome,) = resume_pending(shared.tools(shared.host(wait="pending", stored=True)))
    assert outcome.text == "Paid 5 to ada."
    assert PAID == ["ada"]


def test_of_two_processes_at_once_one_resumes(shared):
    hosts = [shared.host(wait="pending", stored=True) for _ in range(2)]
    one, two = (shared.tools(host) for host in hosts)
    one.dispatch(CALL)
    question = say(inbox_of(one))
    assert inbox_of(two).claim(question)
    assert resume_pending(one) == []
    shared.clock.advance(600)
    (outcome,) = resume_pending(one)
    assert outcome.success


@pytest.mark.slow
def test_hosts_whose_clocks_differ_by_more_than_a_lease_resume_a_call_once(house, database):
    (house.folder / "url").write_text(database)
    first = house.tools(house.host(wait="pending", stored=True))
    first.dispatch(CALL)
    question = say(inbox_of(first))
    assert inbox_of(first).claim(question)
    house.clock = FakeClock(house.clock.now() + timedelta(hours=1))
    second = house.tools(house.host(wait="pending", stored=True))
    assert resume_pending(second) == []


def test_a_call_whose_approval_was_used_up_does_not_run_again(shared):
    """As after a crash between the decision and the note that the question is over."""
    tools = shared.tools(shared.host(wait="pending", stored=True))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    question = say(inbox)
    sealed = inbox.seal.call_of(question)
    assert tools.resume(sealed.call, sealed.token, True).success
    (outcome,) = resume_pending(tools)
    assert outcome.status is Status.DENIED
    assert "used before" in outcome.text
    assert PAID == ["ada"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("is_stored", "told"),
    [(False, "used before"), (True, "Paid 5 to ada.")],
    ids=["mine", "stored"],
)
def test_an_interrupted_resumption_is_done_again_at_once(house, is_async, is_stored, told):
    """An approval in memory is used up before the call; nobody can tell how far that came."""
    interrupts = [KeyboardInterrupt()]

    class Interrupts:
        @hookimpl
        def toolstile_check(self, context):
            if is_answered and interrupts:
                raise interrupts.pop()

    def resume():
        return asyncio.run(aresume_pending(tools)) if is_async else resume_pending(tools)

    is_answered = False
    host = house.host(wait="pending", stored=is_stored)
    host.register(Interrupts())
    tools = house.tools(host)
    tools.dispatch(CALL)
    is_answered = bool(say(inbox_of(tools)))
    with pytest.raises(KeyboardInterrupt):
        resume()
    (outcome,) = resume()
    assert told in outcome.text


def test_an_answer_counts_however_late_the_call_is_resumed(house):
    """Also longer than a token of another approver would hold."""
    tools = house.tools(house.host(wait="pending", expiry=7200))
    tools.dispatch(CALL)
    house.clock.advance(7199)
    say(inbox_of(tools))
    house.clock.advance(7200)
    (outcome,) = resume_pending(tools)
    assert outcome.success


def test_the_same_call_repeated_after_the_expiry_asks_anew(house):
    tools = house.tools(house.host(wait="pending", expiry=60))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    old = say(inbox).ticket
    house.clock.advance(61)
    again = tools.dispatch(CALL)
    assert again.status is Status.PENDING
    assert only(inbox).ticket != old
    assert PAID == []


def test_questions_that_nobody_answered_are_removed(house):
    tools = house.tools(house.host(wait="pending", expiry=60, keep=100))
    inbox = inbox_of(tools)
    tools.dispatch(CALL)
    old = only(inbox).ticket
    house.clock.advance(161)
    tools.dispatch(ToolCall("pay", {"to": "bob"}))
    assert inbox.store.get(old) is None


def test_questions_that_ended_long_ago_are_removed(house):
    tools = house.tools(house.host(wait="pending", expiry=60, keep=100))
    inbox = inbox_of(tools)
    tools.dispatch(CALL)
    old = say(inbox).ticket
    resume_pending(tools)
    house.clock.advance(160)
    tools.dispatch(ToolCall("pay", {"to": "bob"}))
    assert inbox.store.get(old) is not None
    house.clock.advance(1)
    tools.dispatch(ToolCall("pay", {"to": "eve"}))
    assert inbox.store.get(old) is None


# --- Diffs


@pytest.fixture
def desk(house: House, tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    top = {"approve_diff": True, "plugins": {"vfs": {"root": str(folder)}}}
    return house.tools(house.host(generate, wait="pending", top=top)), folder


def test_a_person_is_asked_anew_with_both_diffs_where_the_base_has_moved(desk):
    tools, folder = desk
    tools.dispatch(ToolCall("generate", {"path": "a.txt"}))
    inbox = inbox_of(tools)
    before = only(inbox).diff
    say(inbox)
    (folder / "a.txt").write_text("by somebody else\n")
    (outcome,) = resume_pending(tools)
    assert outcome.status is Status.PENDING
    anew = only(inbox)
    assert (anew.shown_before, "-by somebody else" in anew.diff) == (before, True)
    say(inbox)
    (outcome,) = resume_pending(tools)
    assert outcome.success
    assert (folder / "a.txt").read_text().strip() in anew.diff


@pytest.mark.parametrize("is_in_time", [True, False], ids=["denied", "unanswered"])
def test_nobody_is_asked_anew_about_what_was_not_approved(desk, house, is_in_time):
    """Whatever its base is by now: the command does not run again."""
    tools, folder = desk
    tools.dispatch(ToolCall("generate", {"path": "a.txt"}))
    if is_in_time:
        say(inbox_of(tools), Answer.DENIED, reason="Never.")
    else:
        house.clock.advance(3600)
    (folder / "a.txt").write_text("by somebody else\n")
    (outcome,) = resume_pending(tools)
    assert outcome.status is Status.DENIED
    assert ("Never." if is_in_time else "No one answered in time.") in outcome.text
    assert inbox_of(tools).waiting() == []
    assert (folder / "a.txt").read_text() == "by somebody else\n"


def test_another_call_of_the_same_id_was_not_approved_before(desk):
    """Some models begin their ids anew with each turn."""
    tools, _ = desk
    for path in ("a.txt", "b.txt"):
        tools.dispatch(ToolCall("generate", {"path": path}, id="call-1"))
    first, second = inbox_of(tools).waiting()
    assert (first.shown_before, second.shown_before) == (None, None)


# --- Calls within another


def test_a_call_within_another_waits_for_its_answer(house):
    @tool
    async def settle(*, context: ToolContext) -> str:
        """Pay within."""
        return (await context.acall("pay", {"to": "ada"})).text

    tools = house.tools(house.host(pay, settle, wait="pending"))

    async def both() -> str:
        running = asyncio.ensure_future(tools.adispatch(ToolCall("settle", {})))
        (question,) = await asked(inbox_of(tools))
        inbox_of(tools).answer(question.ticket, Answer.APPROVED, BOB, via="test")
        return (await running).text

    assert asyncio.run(both()) == "Paid 1 to ada."
