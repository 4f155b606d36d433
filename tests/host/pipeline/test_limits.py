"""How long a call may take, where that is longer than a thread can wait."""

import asyncio
import math

import pytest

from toolyard import Host
from toolyard_hookspecs import Deadline, MarkdownSection, Prompt, ToolCall, tool

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
