"""A tool that a plugin gives in a lookup is under every rule that the known one is under."""

from __future__ import annotations

import dataclasses
from typing import Any

from toolyard import Host
from toolyard_hookspecs import (
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
    def toolyard_lookup(self, call: ToolCall) -> Tool[Any, Any] | None:
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
