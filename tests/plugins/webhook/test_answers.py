"""A question goes to an endpoint, and the call goes on with the answer from there."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr
from tests.plugins.inbox.conftest import BOB, PAID, asked, generate, inbox_of, say, until

from toolstile_hookspecs import Answer, Principal, Status, ToolCall, tool
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.inbox import resume_pending
from toolstile_plugins.webhook.delivery import Turn

from .conftest import ADA, Endpoint, Given

# They wait for endpoints that are slow to answer.
pytestmark = pytest.mark.slow

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")


@pytest.fixture
def tools(house, open_host):
    return house.tools(open_host())


@pytest.fixture
def run(endpoint):
    """Dispatch a call, answer what the endpoint is asked, and return the outcome."""

    def run(tools, answer="approved", call=CALL, **more):
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(tools.dispatch, call)
            until(endpoint.questions)
            if answer is not None:
                endpoint.say(endpoint.questions()[0], answer, **more)
            return running.result()

    return run


def test_an_approved_call_runs(tools, run, endpoint):
    outcome = run(tools)
    assert (outcome.text, PAID) == ("Paid 5 to ada.", ["ada"])
    attributes = outcome.event.attributes
    assert attributes["toolstile.approval_by"] == "https://id.example.org ada (webhook)"
    assert all(sent.is_signed for sent in endpoint.sent)
    assert endpoint.of("DELETE") == []


def test_arguments_beside_an_approval_change_nothing(tools, run):
    assert run(tools, arguments={"to": "eve"}).text == "Paid 5 to ada."


def test_a_question_can_be_answered_at_once(tools, endpoint):
    def at_once(sent):
        question = json.loads(sent.body)
        told = {"answer": "approved", "by": ADA, "digest": question["digest"]}
        return Given.signed(question["id"], told)

    endpoint.first.append(at_once)
    assert tools.dispatch(CALL).success
    assert endpoint.of("GET") == []


def test_an_answer_that_is_still_pending_is_asked_for_again(tools, run, endpoint):
    endpoint.first.append(
        lambda sent: (
            Given.signed(sent.path.rpartition("/")[2], {"answer": "pending", "by": ADA})
            if sent.method == "GET" and len(endpoint.of("GET")) < 4
            else None
        )
    )
    assert run(tools).success
    assert len(endpoint.of("GET")) >= 4


def test_the_endpoint_names_where_it_is_asked(tools, run, endpoint):
    endpoint.once(Given(202, headers={"location": "/elsewhere/7?of=me"}))
    assert run(tools).success
    assert {sent.path for sent in endpoint.of("GET")} == {"/elsewhere/7?of=me"}


# --- Questions


def test_nothing_else_leaves_than_a_person_needs(house, open_host, run, endpoint):
    @tool(requires_confirmation=True)
    def log_in(name: str, password: SecretStr) -> str:
        """Log in."""
        return name

    host = open_host(log_in, webhook={"headers": {"authorization": "Bearer abc"}})
    tools = house.tools(host, principal=Principal("app", "eve", groups={"secret-group"}))
    call = ToolCall("log_in", {"name": "ada", "password": "opensesame"}, id="secret-id")
    run(tools, call=call)
    (sent,) = endpoint.of("POST")
    assert sent.headers["authorization"] == "Bearer abc"
    question = json.loads(sent.body)
    assert set(question) == {
        *("id", "tool", "category", "consequenceLevel", "reasons", "arguments", "digest"),
        *("sessionId", "agent", "userId", "requestedAt", "expiresAt"),
    }
    assert question["arguments"] == {"name": "ada", "password": "*** (unchanged)"}
    assert (question["userId"], question["sessionId"]) == ("eve", "s")
    for text in (b"opensesame", b"secret-"):
        assert text not in sent.body


def test_a_diff_is_shown(house, open_host, run, endpoint, tmp_path):
    (tmp_path / "work").mkdir()
    top = {"approve_diff": True, "plugins": {"vfs": {"root": str(tmp_path / "work")}}}
    tools = house.tools(open_host(generate, top=top))
    assert run(tools, call=ToolCall("generate", {"path": "a.txt"})).success
    assert (tmp_path / "work" / "a.txt").read_text().strip() in endpoint.questions()[0]["diff"]


def test_a_host_without_questions_sends_nothing_and_makes_no_files(house, open_host, endpoint):
    house.tools(open_host()).dispatch(ToolCall("nonesuch", {}))
    assert endpoint.sent == []
    assert list(house.folder.iterdir()) == []


# --- Other ways, and the end of a question


def test_an_answer_from_elsewhere_counts_and_the_endpoint_is_told(tools, endpoint):
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch, CALL)
        until(endpoint.questions)
        say(inbox_of(tools), Answer.APPROVED)
        assert running.result().success
    (told,) = until(lambda: endpoint.of("DELETE"))
    assert told.path == f"/questions/{endpoint.questions()[0]['id']}"
    assert told.is_signed


def test_a_cancelled_call_is_told_to_the_endpoint(tools, endpoint):
    async def cancelled():
        running = asyncio.ensure_future(tools.adispatch(CALL))
        await asked(inbox_of(tools))
        await asyncio.to_thread(until, endpoint.questions)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(cancelled())
    until(lambda: endpoint.of("DELETE"))
    count = len(endpoint.of("GET"))
    assert until(lambda: inbox_of(tools).store.questions({QuestionState.WITHDRAWN}))
    assert len(endpoint.of("GET")) == count


def test_a_call_given_up_with_its_host_is_told_to_the_endpoint(house, open_host, endpoint):
    host = open_host()
    tools = house.tools(host)

    async def given_up():
        running = asyncio.ensure_future(tools.adispatch(CALL))
        await asyncio.to_thread(until, endpoint.questions)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.to_thread(host.close)

    asyncio.run(given_up())
    assert len(endpoint.of("DELETE")) == 1


def test_an_expired_question_is_unanswered_and_told_to_the_endpoint(house, open_host, endpoint):
    tools = house.tools(open_host(expiry=60))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch, CALL)
        until(endpoint.questions)
        house.clock.advance(61)
        outcome = running.result()
    assert outcome.status is Status.DENIED
    assert "No one answered in time." in outcome.text
    until(lambda: endpoint.of("DELETE"))


@pytest.mark.long
def test_a_hundred_questions_wait_at_once(tools, endpoint):
    async def many():
        running = [
            asyncio.ensure_future(tools.adispatch(ToolCall("pay", {"to": str(number)})))
            for number in range(100)
        ]
        await asyncio.to_thread(until, lambda: len(endpoint.of("POST")) == 100)
        waiting = {thread.name for thread in threading.enumerate()}
        for question in endpoint.questions():
            endpoint.say(question)
        return waiting, await asyncio.gather(*running)

    waiting, outcomes = asyncio.run(many())
    assert all(outcome.success for outcome in outcomes)
    assert len(PAID) == len({question["id"] for question in endpoint.questions()}) == 100
    # Those of the endpoint's own requests do not count.
    assert sum("process_request" not in name for name in waiting) < 50


# --- Restarts, and other hosts


def test_a_question_is_answered_after_a_restart(house, open_host, endpoint):
    first = open_host(wait="pending", stored=True)
    tools = house.tools(first)
    assert tools.dispatch(CALL).status is Status.PENDING
    until(lambda: endpoint.of("GET"))
    first.close()
    (question,) = endpoint.questions()
    endpoint.say(question)
    tools = house.tools(open_host(wait="pending", stored=True))
    (outcome,) = until(lambda: resume_pending(tools))
    assert (outcome.success, PAID) == (True, ["ada"])
    assert {sent.headers["webhook-id"] for sent in endpoint.of("POST")} == {question["id"]}
    assert resume_pending(tools) == []


def test_of_two_hosts_one_asks_and_the_other_takes_over(house, open_host, endpoint):
    first = open_host(wait="pending", stored=True)
    house.tools(first).dispatch(CALL)
    until(lambda: endpoint.of("GET"))
    second = house.tools(open_host(wait="pending", stored=True))
    second.dispatch(ToolCall("pay", {"to": "eve"}))
    until(lambda: len(endpoint.of("POST")) == 2)
    first.close()
    until(lambda: len(endpoint.of("POST")) == 4)
    assert len({question["id"] for question in endpoint.questions()}) == 2
    for question in endpoint.questions():
        endpoint.say(question)
    until(lambda: len(inbox_of(second).store.questions({QuestionState.APPROVED})) == 2)


def test_who_may_answer_holds_for_the_endpoint_too(house, open_host, run, caplog):
    tools = house.tools(open_host(answerers=[{"users": ["bob"]}]))
    outcome = run(tools)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    assert "lets ada answer" in caplog.text


def test_the_caller_does_not_answer_by_webhook_with_four_eyes(house, open_host, run):
    caller = Principal(ADA["source"], ADA["id"])
    tools = house.tools(open_host(four_eyes=True), principal=caller)
    outcome = run(tools)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    assert caller != BOB


def test_an_end_that_no_host_heard_is_told_by_the_next(house, open_host, endpoint):
    first = open_host(wait="pending", stored=True)
    endpoint.once(Given(202, headers={"location": "/elsewhere/7"}))
    house.tools(first).dispatch(CALL)
    until(lambda: endpoint.of("GET"))
    first.close()
    say(inbox_of(house.tools(house.host(wait="pending", stored=True))))
    open_host(wait="pending", stored=True)
    (told,) = until(lambda: endpoint.of("DELETE"))
    assert (told.path, told.is_signed) == ("/elsewhere/7", True)
    note = house.folder / "inbox" / "inbox.webhook"
    until(lambda: note.stat().st_size == 0)


def test_what_was_asked_at_another_endpoint_is_not_told_to_this_one(house, open_host, endpoint):
    first = open_host(wait="pending")
    house.tools(first).dispatch(CALL)
    until(lambda: endpoint.of("GET"))
    first.close()
    say(inbox_of(house.tools(house.host())))
    other = Endpoint()
    open_host(webhook={"url": other.url})
    note = house.folder / "inbox" / "inbox.webhook"
    until(lambda: note.stat().st_size == 0)
    other.close()
    assert (other.sent, endpoint.of("DELETE")) == ([], [])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_keep_the_turn_of_a_process_that_has_ended(tmp_path):
    first, second = (Turn(tmp_path / "inbox.webhook") for _ in range(2))
    assert first.take()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(receiving, 1)
        os._exit(0)
    try:
        assert not second.take()
        first.close()
        until(second.take)
    finally:
        os.write(sending, b"x")
        os.waitpid(child, 0)
        second.close()
