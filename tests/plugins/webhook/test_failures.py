"""An endpoint that fails, or that somebody else speaks for, lets nothing run."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import httpx2
import pytest
from tests.plugins.inbox.conftest import PAID, until

from toolstile_hookspecs import Principal, Status, ToolCall
from toolstile_plugins.inbox import Inbox, resume_pending
from toolstile_plugins.webhook.delivery import retry_after
from toolstile_plugins.webhook.webhook import VIA

from .conftest import ADA, Endpoint, Given, headers_of

# They wait for endpoints that are slow to answer.
pytestmark = pytest.mark.slow

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")


def approval(sent, **more):
    question = json.loads(sent.body)
    return {"answer": "approved", "by": ADA, "digest": question["digest"], **more}


def ticket_of(sent):
    return json.loads(sent.body)["id"]


def unsigned(sent):
    return Given(200, json.dumps(approval(sent)).encode())


def with_another_secret(sent):
    return Given.signed(ticket_of(sent), approval(sent), key=b"another key, of somebody else")


def from_long_ago(sent):
    return Given.signed(ticket_of(sent), approval(sent), age=600)


def from_the_future(sent):
    return Given.signed(ticket_of(sent), approval(sent), age=-600)


def altered(sent):
    given = Given.signed(ticket_of(sent), approval(sent, answer="denied"))
    given.body = given.body.replace(b"denied", b"approved")
    return given


def of_another_question(sent):
    return Given.signed("0123456789ab", approval(sent))


def sent_back(sent):
    return Given(200, sent.body, {name: sent.headers[name] for name in HEADERS})


def odd_signature(sent):
    given = Given.signed(ticket_of(sent), approval(sent))
    given.headers["webhook-signature"] = "v1 , v2,,="
    return given


HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
NOT_SIGNED = (
    unsigned,
    with_another_secret,
    from_long_ago,
    from_the_future,
    altered,
    of_another_question,
    sent_back,
    odd_signature,
)


@pytest.fixture
def tools(house, open_host):
    return house.tools(open_host())


@pytest.mark.parametrize("rule", NOT_SIGNED)
def test_an_answer_that_the_endpoint_did_not_sign_now_denies(tools, endpoint, caplog, rule):
    endpoint.first.append(rule)
    outcome = tools.dispatch(CALL)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    assert "The answer is not signed" in outcome.text
    assert "is denied: The answer is not signed" in caplog.text


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"digest": "another"}, "does not ask about that any more"),
        ({"digest": None}, "digest"),
        ({"answer": "perhaps"}, "answer"),
        ({"by": None}, "does not say who"),
        ({"by": {"id": ""}}, "by.id"),
        ({"answer": "edited"}, "has no arguments"),
        ({"answer": "edited", "arguments": {"to": "ada", "amount": "much"}}, "amount"),
        ({"answer": "edited", "arguments": ["ada"]}, "arguments"),
    ],
)
def test_an_answer_that_does_not_fit_denies_with_the_reason(tools, endpoint, caplog, more, told):
    endpoint.first.append(lambda sent: Given.signed(ticket_of(sent), approval(sent, **more)))
    outcome = tools.dispatch(CALL)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    assert told in outcome.text
    assert told in caplog.text


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null"])
def test_an_answer_that_is_no_json_denies(tools, endpoint, body):
    def broken(sent):
        given = Given.signed(ticket_of(sent), {})
        given.body, given.headers = body, headers_of(given.headers["webhook-id"], body)
        return given

    endpoint.first.append(broken)
    outcome = tools.dispatch(CALL)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    assert "The answer cannot be read" in outcome.text


@pytest.mark.parametrize("status", [400, 401, 404, 410, 307])
def test_a_question_that_is_refused_is_denied_with_the_reason(tools, endpoint, status):
    endpoint.first.append(lambda _: Given(status))
    outcome = tools.dispatch(CALL)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    assert f"HTTP status {status}" in outcome.text
    (event,) = tools.resources.get(Inbox).events.newest(2)
    assert (event.act, event.by, event.via) == ("denied", Principal("toolstile", VIA), VIA)
    assert f"HTTP status {status}" in event.reason


def test_an_endless_answer_is_not_read_to_its_end(tools, endpoint):
    endpoint.first.append(lambda _: Given(200, b" " * 1_100_000))
    assert "over 1,048,576 bytes" in tools.dispatch(CALL).text


@pytest.mark.parametrize("status", [202, 302])
@pytest.mark.parametrize("is_url", [True, False])
def test_no_question_goes_to_another_host(tools, endpoint, status, is_url):
    other = Endpoint()
    location = other.url if is_url else "http://[::"
    endpoint.first.append(lambda _: Given(status, headers={"location": location}))
    outcome = tools.dispatch(CALL)
    other.close()
    assert (outcome.status, other.sent) == (Status.DENIED, [])


# --- Failures that pass


@pytest.mark.parametrize("status", [0, 408, 429, 500, 502, 503])
def test_an_endpoint_that_fails_for_a_time_is_asked_again(tools, endpoint, status):
    for _ in range(2):
        endpoint.once(Given(status))
    endpoint.first.append(lambda sent: Given.signed(ticket_of(sent), approval(sent)))
    assert tools.dispatch(CALL).success
    assert len(endpoint.of("POST")) == 3
    assert len({sent.headers["webhook-id"] for sent in endpoint.sent}) == 1


def test_an_endpoint_that_says_when_is_left_alone_until_then(tools, endpoint, caplog):
    endpoint.once(Given(503, headers={"retry-after": "1"}))
    endpoint.first.append(lambda sent: Given.signed(ticket_of(sent), approval(sent)))
    assert tools.dispatch(CALL).success
    first, second = (int(sent.headers["webhook-timestamp"]) for sent in endpoint.of("POST"))
    assert second > first


@pytest.mark.parametrize(
    ("told", "least", "most"),
    [
        ("7", 7, 7),
        (formatdate(time.time() + 7200, usegmt=True), 3000, 7200),
        (formatdate(time.time() - 3600, usegmt=True), 0, 0),
        ("9" * 400, 86_400, 86_400),
        ("Thu, 26 Nov 2099 11:00:00 -0000", 0, 0),
        ("-5", 0, 0),
        ("soon", 0, 0),
        ("", 0, 0),
    ],
    ids=["seconds", "date", "past", "too long", "no zone", "negative", "words", "nothing"],
)
def test_the_time_to_ask_again_is_given_in_seconds_or_as_a_date(told, least, most):
    answer = httpx2.Response(503, headers={"retry-after": told})
    assert least <= retry_after(answer) <= most


def test_a_slow_endpoint_is_asked_again(house, open_host, endpoint):
    go_on = threading.Event()

    def slow(sent):
        if len(endpoint.of("POST")) == 1:
            go_on.wait()
        return Given.signed(ticket_of(sent), approval(sent))

    endpoint.first.append(slow)
    tools = house.tools(open_host(webhook={"timeout": 0.3}))
    assert tools.dispatch(CALL).success
    go_on.set()
    assert len(endpoint.of("POST")) > 1


def test_an_endpoint_that_cannot_be_reached_is_unanswered(house, open_host, endpoint):
    endpoint.close()
    tools = house.tools(open_host(expiry=60))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch, CALL)
        until((house.folder / "inbox" / "inbox.webhook").exists)
        house.clock.advance(61)
        outcome = running.result()
    assert outcome.status is Status.DENIED
    assert "No one answered in time." in outcome.text
    assert resume_pending(tools) == []
