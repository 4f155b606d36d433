"""Limits of a call may be longer than a thread can wait, and leave out some waits."""

import asyncio
import math
import threading
import time
from types import SimpleNamespace

import pytest

from toolstile import Host
from toolstile.drivers import limit as limits
from toolstile_hookspecs import Deadline, MarkdownSection, Prompt, ToolCall, ToolContext, tool

LONG = [1e12, math.inf]


def prompt_of(timeout):
    @tool(timeout=timeout)
    def patient() -> str:
        """Answer at once."""
        return "here"

    @tool(timeout=timeout)
    async def apatient() -> str:
        """Answer at once."""
        return "here"

    return Prompt.of("n", "k", [MarkdownSection(key="s", title="S", tools=[patient, apatient])])


@pytest.mark.parametrize("timeout", LONG)
@pytest.mark.parametrize("name", ["patient", "apatient"])
def test_a_timeout_may_be_longer_than_a_thread_can_wait(timeout, name):
    with Host(discover=False) as host, host.executor(prompt=prompt_of(timeout)) as tools:
        assert tools.dispatch(ToolCall(name)).text == "here"
        assert [each.text for each in tools.dispatch_all([ToolCall(name)] * 2)] == ["here"] * 2
        assert asyncio.run(tools.adispatch(ToolCall(name))).text == "here"


@pytest.mark.parametrize("seconds", LONG)
def test_a_deadline_may_be_longer_than_a_thread_can_wait(seconds):
    deadline = Deadline.after(seconds)
    with (
        Host(discover=False) as host,
        host.executor(prompt=prompt_of(None), deadline=deadline) as tools,
    ):
        assert tools.dispatch(ToolCall("patient")).text == "here"
        assert asyncio.run(tools.adispatch(ToolCall("patient"))).text == "here"


def test_a_timeout_stands_still_until_each_pause_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: clock.now))
    limit = limits.Limit(5.0)
    limit.pause()
    limit.pause()
    limit.resume()
    clock.now += 60
    assert limit.fault() is None
    limit.resume()
    clock.now += 4
    assert limit.fault() is None
    clock.now += 2
    assert isinstance(limit.fault(), limits.TimedOut)


@pytest.mark.slow
@pytest.mark.parametrize(("timeout", "seconds"), [(0.5, 60.0), (60.0, 0.5)])
def test_what_is_left_is_the_earlier_of_timeout_and_deadline(timeout, seconds):
    left = limits.Limit(timeout, Deadline.after(seconds)).remaining()
    assert 0.0 <= left <= 0.5


@pytest.mark.slow
def test_waiting_for_others_does_not_count_against_the_timeouts_around_it():
    go_on = threading.Event()

    @tool(concurrency="serial", timeout=None)
    def alone(seconds: float) -> str:
        """Let nobody else in for some time."""
        go_on.set()
        time.sleep(seconds)
        return "done"

    @tool(timeout=1.5)
    def calls(*, context: ToolContext) -> str:
        """Call the one that lets one in at a time."""
        return context.call("alone", {"seconds": 0.0}).text

    section = MarkdownSection(key="s", title="S", tools=[alone, calls])
    with (
        Host(discover=False) as host,
        host.executor(prompt=Prompt.of("n", "k", [section])) as tools,
    ):
        first = threading.Thread(target=tools.dispatch, args=[ToolCall("alone", {"seconds": 3.0})])
        first.start()
        assert go_on.wait(30)
        assert tools.dispatch(ToolCall("calls")).text == "done"
        first.join(30)
