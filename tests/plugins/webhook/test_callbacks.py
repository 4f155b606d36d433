"""The endpoint sends its answer, and the application hands it to the webhook."""

from __future__ import annotations

import json

import pytest
from tests.plugins.inbox.conftest import PAID, inbox_of, only, until

from toolstile_hookspecs import Status, ToolCall
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.inbox import resume_pending
from toolstile_plugins.webhook import Webhook

from .conftest import ADA, headers_of

# They wait for endpoints that are slow to answer.
pytestmark = pytest.mark.slow

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")
URL = "https://shop.example.org/answers"


@pytest.fixture
def tools(house, open_host, endpoint):
    tools = house.tools(open_host(wait="pending", webhook={"answer_url": URL}))
    assert tools.dispatch(CALL).status is Status.PENDING
    until(endpoint.questions)
    return tools


@pytest.fixture
def send(tools, endpoint):
    def send(*, key=None, age=0, ticket=None, **more):
        (question,) = endpoint.questions()
        told = {"answer": "approved", "by": ADA, "digest": question["digest"], **more}
        body = json.dumps(told).encode()
        how = {} if key is None else {"key": key}
        headers = headers_of(f"{ticket or question['id']}-answer", body, age=age, **how)
        titled = {name.title(): value for name, value in headers.items()}
        return tools.resources.get(Webhook).receive(titled, body)

    return send


def test_an_answer_is_kept_and_the_call_resumed(tools, send, endpoint):
    assert endpoint.questions()[0]["answerUrl"] == URL
    assert send() == (200, "The answer is kept.")
    (outcome,) = resume_pending(tools)
    assert (outcome.success, PAID) == (True, ["ada"])
    assert endpoint.of("GET") == []


def test_an_answer_that_comes_twice_counts_once(tools, send):
    assert send()[0] == 200
    status, told = send(answer="denied")
    assert status == 409
    assert "was approved by ada" in told
    assert "The first answer counts." in told
    assert len(resume_pending(tools)) == 1
    assert send()[0] == 409
    assert PAID == ["ada"]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"key": b"another key, of somebody else"}, "is not signed"),
        ({"age": 600}, "is not signed"),
        ({"ticket": "0123456789ab"}, "There is no question"),
        ({"digest": "another"}, "does not ask about that any more"),
        ({"by": None}, "does not say who"),
        ({"answer": "perhaps"}, "cannot be read"),
        ({"answer": "edited", "arguments": {"amount": 1}}, "to"),
    ],
)
def test_a_wrong_answer_is_told_and_can_be_corrected(tools, send, how, told):
    status, text = send(**how)
    assert (status, told in text) == (409, True)
    assert only(inbox_of(tools)).state is QuestionState.WAITING
    assert send()[0] == 200


def test_an_answer_beyond_all_bounds_is_not_read(tools):
    status, told = tools.resources.get(Webhook).receive({}, b" " * 2_000_000)
    assert (status, told) == (413, "Send at most 1,048,576 bytes.")


def test_an_answer_still_to_come_changes_nothing(tools, send):
    assert send(answer="pending")[0] == 200
    assert only(inbox_of(tools)).state is QuestionState.WAITING
