"""A tool that a plugin gives in a lookup is under every rule that the known one is under."""

from __future__ import annotations

import dataclasses
from typing import Any

from toolstile import Host
from toolstile.pipeline.plan import MAX_OTHERS
from toolstile_hookspecs import (
    MarkdownSection,
    PolicyDecision,
    Prompt,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)


@tool
def sells(times: int) -> None:
    """Sell something."""
    raise ValueError(times)


class Quota:
    """Hears of everything that concerns a call's place."""

    name = "quota"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        self.heard.append("check")
        return PolicyDecision.allow()

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        self.heard.append("reserve")
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        self.heard.append("result")

    def on_rollback(self, tool: Any, params: Any, *, context: ToolContext) -> None:
        self.heard.append("rollback")


class Twins:
    """A plugin that gives a twin of a tool, of the same name and handler."""

    @hookimpl
    def toolstile_lookup(self, call: ToolCall) -> Tool[Any, Any] | None:
        return dataclasses.replace(sells) if call.arguments == '{"times": 2}' else None


def test_a_twin_passes_the_policies_of_the_tool_it_stands_for() -> None:
    quota = Quota()
    shop = MarkdownSection(key="shop", title="Shop", tools=[sells], policies=[quota])
    told: list[list[str]] = []
    with (
        Host(discover=False, plugins=[Twins()]) as host,
        host.executor(prompt=Prompt.of("tests", "lookup", [shop])) as tools,
    ):
        for times in (1, 2):
            quota.heard.clear()
            outcome = tools.dispatch(ToolCall("sells", f'{{"times": {times}}}'))
            assert outcome.status is Status.ERROR
            told.append(list(quota.heard))

    assert told == [["check", "reserve", "rollback"]] * 2


def test_tools_that_are_made_for_each_call_are_not_all_kept() -> None:
    class Making:
        @hookimpl
        def toolstile_lookup(self, call: ToolCall) -> Tool[Any, Any]:
            return dataclasses.replace(sells, name=f"sells_{call.id}")

    with Host(discover=False, plugins=[Making()]) as host, host.executor() as tools:
        for number in range(MAX_OTHERS + 10):
            call = ToolCall("sells", {"times": 1}, id=str(number))
            assert tools.dispatch(call).event.tool_name == f"sells_{number}"
        assert len(tools._plans._others) == MAX_OTHERS  # type: ignore[union-attr]


def test_the_outcome_of_another_call_is_no_value() -> None:
    @tool
    def passes_on(*, context: ToolContext) -> Any:
        """Call another tool."""
        return context.call("sells", {"times": 1})

    shop = MarkdownSection(key="shop", title="Shop", tools=[sells, passes_on])
    prompt = Prompt.of("tests", "lookup", [shop])
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        told = tools.dispatch(ToolCall("passes_on")).text
    assert "it is the outcome of another call; return its result, or its text" in told
