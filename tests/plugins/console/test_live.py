"""Open pages are told of changes, and miss none when they connect again."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2

from .conftest import until


def versions(answer: httpx2.Response) -> Iterator[str]:
    lines = (line for line in answer.iter_lines() if line.startswith("data: "))
    return (line.removeprefix("data: ") for line in lines)


def test_a_change_is_told_at_once_and_to_those_who_connect_later(desk, visitor):
    with visitor.client.stream("GET", f"{visitor.room}/events/waiting") as first:
        assert first.headers["content-type"].startswith("text/event-stream")
        told = versions(first)
        before = next(told)
        question = desk.ask()
        after = next(told)
        with visitor.client.stream("GET", f"{visitor.room}/events/waiting") as second:
            assert next(versions(second)) == after
        visitor.answer(question, "deny")
        assert next(told) == before != after


def test_nothing_is_looked_at_while_no_page_is_open(desk, visitor):
    feed = desk.feed_of("waiting")
    with visitor.client.stream("GET", f"{visitor.room}/events/waiting") as answer:
        told = versions(answer)
        assert next(told)
        assert feed.is_looking
    until(lambda: not feed.is_looking)
