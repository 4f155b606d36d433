"""The questions of a turn are one message, which is answered row by row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.plugins.inbox.conftest import BOB, PAID, House, inbox_of, until
from tests.plugins.inbox.test_turns import kept, note, noted, wishes

from toolstile_hookspecs import Answer

from .conftest import ADA, Endpoint, Given

# They wait for endpoints that are slow to answer.
pytestmark = pytest.mark.slow
TURN = {"approve_by": "turn"}


def say(endpoint: Endpoint, message: Any, *answers: str | None) -> None:
    """Answer the rows of a message, the last row first."""
    rows = [*zip(message["questions"], answers, strict=True)]
    told = {
        row["id"]: {"answer": answer, "by": ADA, "digest": row["digest"]}
        for row, answer in reversed(rows)
        if answer is not None
    }
    endpoint.said[message["id"]] = Given.signed(message["id"], {"answers": told})


def test_a_turn_is_one_message_and_rows_are_answered_in_any_order(
    house: House, open_host: Any, endpoint: Endpoint
) -> None:
    tools = house.tools(open_host(top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch_all, wishes("ada", "eve", "ada"))
        (message,) = until(endpoint.questions)
        rows = message["questions"]
        assert [row["arguments"]["to"] for row in rows] == ["ada", "eve", "ada"]
        assert {row["id"] for row in rows} == {each.ticket for each in inbox_of(tools).waiting()}
        say(endpoint, message, "approved", None, "denied")
        until(lambda: len(inbox_of(tools).waiting()) == 1)
        assert not running.done()
        say(endpoint, message, "approved", "approved", "approved")  # the first answer counts
        statuses = [outcome.status for outcome in running.result()]
    assert statuses == ["succeeded", "succeeded", "denied"]
    assert sorted(PAID) == ["ada", "eve"]
    assert [len(endpoint.of(method)) for method in ("POST", "DELETE")] == [1, 0]
    assert all(sent.is_signed for sent in endpoint.sent)


def test_a_transaction_is_one_message_with_one_diff(
    house: House, open_host: Any, endpoint: Endpoint
) -> None:
    tools = house.tools(open_host(note, top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(noted, tools, "a", "a")
        (message,) = until(endpoint.questions)
        assert "added 2" in message["diff"]
        assert all("diff" not in row for row in message["questions"])
        say(endpoint, message, "approved", "approved")
        running.result()
    assert kept(tools) == ["a", "a"]


def test_rows_answered_elsewhere_are_withdrawn_together(
    house: House, open_host: Any, endpoint: Endpoint
) -> None:
    tools = house.tools(open_host(top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch_all, wishes("ada", "eve"))
        (message,) = until(endpoint.questions)
        inbox = inbox_of(tools)
        for row in inbox.waiting():
            inbox.answer(row.ticket, Answer.APPROVED, BOB, via="test", digest=row.digest)
        assert all(outcome.success for outcome in running.result())
        (withdrawn,) = until(lambda: endpoint.of("DELETE"))
    assert withdrawn.path.endswith(f"/{message['id']}")


def test_an_answer_for_another_turn_is_refused(
    house: House, open_host: Any, endpoint: Endpoint
) -> None:
    tools = house.tools(open_host(top=TURN))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tools.dispatch_all, wishes("ada", "eve"))
        (message,) = until(endpoint.questions)
        foreign = {**message["questions"][0], "id": "another"}
        say(endpoint, {**message, "questions": [foreign]}, "approved")
        outcomes = running.result()
    assert all("has no question another" in outcome.text for outcome in outcomes)
    assert PAID == []
