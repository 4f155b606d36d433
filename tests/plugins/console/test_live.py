"""Open pages are told of changes, and miss none when they connect again."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise

import httpx2
import pytest
from starlette.requests import Request

from toolstile_plugins.console.call_index import MOST
from toolstile_plugins.console.feed import Feed

from .conftest import Desk, Visitor, until


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
        # The page tells of the answer, so it is not what it was before the question.
        assert len({before, after, next(told)}) == 3


def test_nothing_is_looked_at_while_no_page_is_open(desk, visitor):
    feed = desk.feed_of("waiting")
    with visitor.client.stream("GET", f"{visitor.room}/events/waiting") as answer:
        told = versions(answer)
        assert next(told)
        assert feed.is_looking
    until(lambda: not feed.is_looking)


request = Request({"type": "http", "query_string": b"", "path": "/", "headers": []})


def test_a_look_that_raises_is_not_the_last():
    found = iter([RuntimeError("changed during iteration"), "new"])

    def version() -> str:
        if isinstance(each := next(found, "new"), Exception):
            raise each
        return each

    async def visit() -> None:
        stream = Feed(version, 0.01).events(request, "")
        await anext(stream)
        assert b"data: new" in await asyncio.wait_for(anext(stream), 30)
        await stream.aclose()

    asyncio.run(visit())


def test_a_page_that_is_opened_again_waits_for_the_look_of_the_closed_one():
    events: list[str] = []

    def version() -> str:
        events.append("begun")
        time.sleep(0.05)
        events.append("ended")
        return str(len(events))

    async def visit() -> None:
        feed = Feed(version, 0.01)
        for _ in range(3):
            stream = feed.events(request, "")
            assert await anext(stream) == b"retry: 1000\n\n"
            # The look begins on its thread.
            await asyncio.sleep(0.02)
            await stream.aclose()
        stream = feed.events(request, "")
        assert [await anext(stream) for _ in range(2)][1].startswith(b"id: ")
        await stream.aclose()

    asyncio.run(visit())
    assert events[:8] == ["begun", "ended"] * 4


def test_the_streams_of_several_pages_are_one_and_go_on_where_each_was(desk, visitor):
    def told(*of: str) -> Iterator[dict[str, str]]:
        query = {"of": [*of]}
        with visitor.client.stream("GET", f"{visitor.room}/events", params=query) as answer:
            yield from read_events(answer)

    desk.call("read_file", path="old.txt")
    found = told("waiting", "calls?tool=none", "calls")
    first = dict(next(found)["id"].split(" ") for _ in range(3))
    assert first.keys() == {"0", "1", "2"}
    desk.call("read_file", path="old.txt")
    news = {event["id"].split(" ")[0]: event for event in (next(found), next(found))}
    assert "read_file" not in news["1"]["data"]
    assert "read_file" in news["2"]["data"]
    found.close()

    later = told(f"calls#{first['2']}", f"waiting#{first['0']}")
    event = next(later)
    # Only the first has something new, which is not the whole page.
    assert (event["id"].split(" ")[0], event["event"]) == ("0", "news")
    question = desk.ask()
    assert next(event for event in later if event["id"].startswith("1 "))["data"]
    later.close()
    visitor.answer(question, "deny")
    for section in ("waiting", "calls"):
        until(lambda section=section: not desk.feed_of(section).is_looking)


def test_a_stream_that_is_not_there_is_named(visitor):
    answer = visitor.get("/events?of=waiting&of=nothing")
    assert (answer.status_code, answer.text) == (404, "The console has no events of nothing.")


CALLING = """
import sys, time
from pathlib import Path
from toolstile import Host
from toolstile_hookspecs import ToolCall, tool
from toolstile_plugins.record import Recorder, RecordFile

@tool(description="Say a number.")
def number(n: int) -> str:
    return f"number {n}"

with Host(discover=False, tools=[number]) as host:
    recorder = Recorder(RecordFile(Path(sys.argv[1])), host.clock)
    host.register(recorder)
    with host.executor() as tools:
        began = time.perf_counter()
        for n in range(int(sys.argv[2])):
            tools.dispatch(ToolCall("number", {"n": n}))
            time.sleep(max(0.0, began + n / 1000 - time.perf_counter()))
    recorder.close()
"""


class Tab:
    """A page that follows calls as its script does, and is closed and opened again."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor = visitor
        self.told = ""
        self.numbers: list[int] = []
        self.sent: list[int] = []
        self.loads = 0

    def follow(self, events: int, until_number: int) -> None:
        """Take in some events, as long as the newest call is not a certain one."""
        address, headers = f"{self.visitor.room}/events/calls", {"last-event-id": self.told}
        with self.visitor.client.stream("GET", address, headers=headers) as answer:
            for event in read_events(answer):
                self.told = event["id"]
                self.take(event)
                events -= 1
                if not events or (self.numbers and self.numbers[0] >= until_number):
                    return

    def take(self, event: dict[str, str]) -> None:
        if event.get("event") == "news":
            new = [int(found) for found in re.findall(r"number (\d+)", event["data"])]
            self.sent += new
        else:
            self.loads += 1
            rows = self.visitor.json("/calls")["calls"]
            new = [int(row["gist"].removeprefix("number ")) for row in rows]
        # As the script does, which knows a row by its name.
        self.numbers = sorted({*new, *self.numbers}, reverse=True)[:MOST]
        assert all(newer == older + 1 for newer, older in pairwise(self.numbers)), self.numbers


def read_events(answer: httpx2.Response) -> Iterator[dict[str, str]]:
    event: dict[str, str] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            event[name] = f"{event[name]}\n{value}" if name in event else value
        elif "data" in event:
            yield event
        if not line:
            event = {}


@pytest.mark.slow
def test_at_1000_calls_a_second_no_call_is_lost_or_doubled_where_a_page_connects_again(
    tmp_path, stack
):
    folder = tmp_path / "records"
    desk = Desk(tmp_path, stack, record={"folder": str(folder)})
    visitor = Visitor(desk, stack.enter_context(desk.client()))
    tab = Tab(visitor)
    last = 5000
    script = [sys.executable, "-c", CALLING, str(folder / "z.jsonl"), str(last + 1)]
    with subprocess.Popen(script) as calling:
        while not tab.numbers or tab.numbers[0] < last:
            tab.follow(1, last)
    assert calling.returncode == 0
    assert tab.numbers == [*range(last, last - MOST, -1)]
    assert len(tab.sent) == len(set(tab.sent)) > 0
    # At first, and perhaps where the record ends, with a line that is no call.
    assert tab.loads <= 2
