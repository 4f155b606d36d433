"""A policy sees what the model reads of a call that failed, and can remember it."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstile import Host, Prompt, Settings, ToolCall
from toolstile_hookspecs import (
    MarkdownSection,
    PersistentPolicy,
    PolicyDecision,
    PolicyState,
    SupportsFailure,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)


@tool
def fetch(page: str) -> ToolResult[str]:
    """Fetch a page."""
    if page == "broken":
        raise RuntimeError("boom")
    return ToolResult.ok("fine") if page == "good" else ToolResult.error(f"Not found: {page}")


@tool
def send() -> str:
    """Send something."""
    return "sent"


@tool
def outer(*, context: ToolContext) -> str:
    """Fetch a page through another call."""
    return context.call("fetch", {"page": "bad"}).text


@dataclass
class Careful:
    """Lets nothing be sent once the model has read a failure of a foreign page."""

    name: str = "careful"
    seen: list[Any] = field(default_factory=list)

    def check(self, tool, params, *, context):
        tainted = PolicyState.reserved(context, self.name).data.get("tainted")
        if tool.name == "send" and tainted:
            return PolicyDecision.deny(f"The model has read {tainted}. It cannot send now.")
        return PolicyDecision.allow()

    def on_result(self, tool, params, result, *, context):
        self.seen.append((tool.name, result.success, result.message))

    def on_failure(self, tool, params, result, *, context):
        self.seen.append((tool.name, result.success, result.message))
        if tool.name == "fetch":
            state = PolicyState.reserved(context, self.name)
            data = {**state.data, "tainted": params.page}
            PolicyState(state.policy_name, data=data).save(context)


def dispatch(tools, driver, name, **arguments):
    if driver == "sync":
        return tools.dispatch(ToolCall(name, arguments))
    return asyncio.run(tools.adispatch(ToolCall(name, arguments)))


@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("place", ["host", "another section"])
def test_it_sees_every_failure_as_the_model_does_and_remembers_it(driver, place):
    policy = Careful()
    sections = [
        MarkdownSection(key="a", title="A", tools=[fetch, outer]),
        MarkdownSection(
            key="b", title="B", tools=[send], policies=[policy] if place != "host" else []
        ),
    ]
    with (
        Host(discover=False, policies=[policy] if place == "host" else []) as host,
        host.executor(prompt=Prompt.of("tests", "p", sections)) as tools,
    ):
        assert dispatch(tools, driver, "send").success
        assert dispatch(tools, driver, "fetch", page="good").success
        failed = [dispatch(tools, driver, "fetch", page=page) for page in ("bad", "broken")]
        denied = dispatch(tools, driver, "send")
    assert denied.text == "The model has read broken. It cannot send now."
    assert policy.seen[2:] == [("fetch", False, outcome.text) for outcome in failed]


def test_it_sees_a_nested_failure_too():
    policy = Careful()
    with (
        Host(discover=False, tools=[fetch, outer], policies=[policy]) as host,
        host.executor() as tools,
    ):
        assert tools.dispatch(ToolCall("outer")).success
    assert [name for name, *_ in policy.seen] == ["fetch", "outer"]


def test_it_is_not_asked_of_calls_that_were_not_admitted():
    policy = Careful()
    with Host(discover=False, tools=[fetch], policies=[policy]) as host, host.executor() as tools:
        assert not tools.dispatch(ToolCall("fetch", {"pge": "x"})).success
        assert not tools.dispatch(ToolCall("fetsh", {})).success
    assert policy.seen == []


def test_its_own_failure_is_logged_and_changes_nothing(caplog):
    class Broken(Careful):
        def on_failure(self, tool, params, result, *, context):
            raise ZeroDivisionError

    last = Careful(name="last")
    with (
        Host(discover=False, tools=[fetch], policies=[Broken(), last]) as host,
        host.executor() as tools,
    ):
        assert tools.dispatch(ToolCall("fetch", {"page": "bad"})).text == "Not found: bad"
    assert "Policy careful failed to see a failure." in caplog.text
    assert len(last.seen) == 1


def test_it_changes_nothing_else_of_the_session():
    told = []

    class Meddling(Careful):
        def on_failure(self, tool, params, result, *, context):
            try:
                context.session[str].append("x")
            except Exception as error:
                told.append(type(error).__name__)

    with (
        Host(discover=False, tools=[fetch], policies=[Meddling()]) as host,
        host.executor() as tools,
    ):
        tools.dispatch(ToolCall("fetch", {"page": "bad"}))
        assert list(tools.session[str].all()) == []
    assert told == ["StateError"]


def test_what_it_remembers_can_outlive_the_session(tmp_path):
    kept = PersistentPolicy(Careful(), tmp_path / "policies.json")
    with Host(discover=False, tools=[fetch, send], policies=[kept]) as host:
        with host.executor() as tools:
            tools.dispatch(ToolCall("fetch", {"page": "bad"}))
        with host.executor() as tools:
            assert "has read bad" in tools.dispatch(ToolCall("send")).text


def test_a_renamed_plugin_s_policy_sees_its_tools_by_their_own_names():
    policy = Careful()

    class Suite:
        @hookimpl
        def toolstile_sections(self):
            tools = [fetch, send]
            return [MarkdownSection(key="a", title="A", tools=tools, policies=[policy])]

    settings = Settings(plugins={"Suite": {"prefix": "x_"}})
    with (
        Host(discover=False, settings=settings, plugins=[Suite()]) as host,
        host.executor() as tools,
    ):
        tools.dispatch(ToolCall("x_fetch", {"page": "bad"}))
        assert not tools.dispatch(ToolCall("x_send")).success
    assert policy.seen[0][0] == "fetch"


def test_it_is_an_optional_part_of_a_policy():
    assert isinstance(Careful(), SupportsFailure)
