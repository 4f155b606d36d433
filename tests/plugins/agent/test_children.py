"""An agent as a tool of another one is a child of it: the authority of both, one budget."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    ApprovalAnswer,
    BudgetTracker,
    Cancellation,
    ToolCall,
    ToolContext,
    ToolInvoked,
    hookimpl,
    tool,
)
from toolstile_hookspecs.agents.messages import Message, StopReason, Usage
from toolstile_plugins.agent import Agent, AgentConfig, Budget
from toolstile_plugins.policies.limits import QuotaPolicy


@tool(category="read")
def read_file(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    return f"{context.agent} reads {path}"


@tool(category="write")
def write_file(path: str) -> str:
    """Write a file."""
    return "written"


@tool(category="write", requires_confirmation=True)
def sign(path: str) -> str:
    """Sign a file."""
    return "signed"


class Watch:
    """Hears of every call."""

    def __init__(self) -> None:
        self.events: list[ToolInvoked] = []

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        self.events.append(event)

    @property
    def calls(self) -> list[tuple[str, str, bool]]:
        return [(each.agent, each.call.name, each.success) for each in self.events]


@dataclass
class Front:
    """A front agent, and a reader that is one of its tools."""

    result: Any
    watch: Watch
    front: ScriptedModel
    reader: ScriptedModel


ASKED: list[tuple[str, dict[str, Any]]] = [("reader", {"request": "What is in a?"})]


def front(*replies: Any, own: Any = (), run: Any = None, **given: Any) -> Front:
    """Let a front agent ask its reader once, whose model gives the replies."""
    options = {each: given.pop(each) for each in ("tools", "rules", "budget") if each in given}
    config, host_options = given.pop("config", AgentConfig()), given.pop("host", {})
    asking, answering = ScriptedModel(ASKED, "Done."), ScriptedModel(*replies)
    reader = Agent[str](
        Prompt.of("demo", "reader", [MarkdownSection(key="r", title="You read.", tools=own)]),
        adapter=answering,
    )
    made = reader.as_tool("reader", "Ask the reader.", **options)
    tools = [read_file, write_file, sign, made]
    prompt = Prompt.of("demo", "front", [MarkdownSection(key="f", title="You lead.", tools=tools)])
    watch = Watch()
    with Host(discover=False, plugins=[watch], **host_options) as host:
        agent = Agent[str](prompt, adapter=asking, host=host, config=config)
        result = agent.run("Look.", **given) if run is None else run(agent)
    return Front(result, watch, asking, answering)


def told(made: Front) -> str:
    return made.front.requests[1].messages[-1].answers[0].text


@pytest.mark.parametrize("way", ["own tools", "globs"])
@pytest.mark.parametrize("on_loop", [False, True])
def test_an_agent_as_a_tool_has_the_tools_that_both_have(way: str, on_loop: bool) -> None:
    run = (lambda agent: asyncio.run(agent.arun("Look."))) if on_loop else None
    made = front(
        [("read_file", {"path": "a"}), ("write_file", {"path": "a"})],
        "It is empty.",
        own=[read_file] if way == "own tools" else [],
        run=run,
        **({} if way == "own tools" else {"tools": ["read_*"]}),
    )
    assert made.result.text == "Done."
    assert told(made) == "It is empty."
    assert sorted(made.watch.calls) == [
        ("main", "reader", True),
        ("main/reader", "read_file", True),
        ("main/reader", "write_file", False),
    ]
    asked = made.reader.requests[0]
    assert [each.name for each in asked.tools] == ["read_file"]
    assert "You read." in asked.system
    assert "You lead." not in asked.system
    answers = made.reader.requests[1].messages[-1].answers
    assert answers[0].text == "main/reader reads a"
    assert "it is not among the tools of this agent" in answers[1].text
    # Each has a conversation of its own.
    assert "What is in a?" in str(asked.messages)
    assert "Look." not in str(asked.messages)


def test_quotas_of_both_hold() -> None:
    reads = [("read_file", {"path": "a"})]
    made = front(
        *[reads] * 4,
        "Enough.",
        rules=[QuotaPolicy(max_calls=3)],
        host={"policies": [QuotaPolicy(name="all", max_calls=3)]},
    )
    # The call of the reader itself counts in the quota of the host.
    assert [success for agent, _, success in made.watch.calls if agent == "main/reader"] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("whole", "own", "left"),
    [(1_000, None, 780), (1_000, 800, 690), (1_000, 100, 0), (200, 800, 0)],
)
def test_the_tokens_of_both_count_in_one_budget(whole: int, own: int | None, left: int) -> None:
    seen: list[float | None] = []

    @tool(category="read")
    def read_budget(*, context: ToolContext) -> str:
        """Read the budget."""
        assert context.budget_tracker is not None
        seen.append(context.budget_tracker.remaining())
        return "read"

    # Each reply takes 110 tokens.
    usage = Usage(100, 10)
    asking = ScriptedModel(ASKED, "Done.", usage=usage)
    answering = ScriptedModel([("read_budget", {})], "It is empty.", usage=usage)
    budget = None if own is None else Budget(max_total_tokens=own)
    reader = Agent[str](Prompt.of("demo", "reader"), adapter=answering)
    tools = [read_budget, reader.as_tool("reader", "Ask.", budget=budget)]
    prompt = Prompt.of("demo", "front", [MarkdownSection(key="f", title="F", tools=tools)])
    with Host(discover=False) as host:
        agent = Agent[str](prompt, adapter=asking, host=host)
        result = agent.run("Look.", budget=Budget(max_total_tokens=whole))
    assert seen == ([left] if left else [])
    assert len(answering.requests) == (2 if left else 1)
    if whole == 200:
        # The reader has used up the budget of the agent that asked it.
        assert result.stop_reason is StopReason.BUDGET
    else:
        assert result.success, result.error
        answer = asking.requests[1].messages[-1].answers[0].text
        assert answer.startswith("It is empty." if left else "reader has no answer: The budget of")


def test_a_call_that_waits_for_a_person_fails_the_request() -> None:
    made = front(
        [("sign", {"path": "a"})],
        tools=["sign"],
        host={"approver": lambda _: ApprovalAnswer.pending("t-1")},
    )
    assert told(made) == "sign needs a person's answer, and reader cannot wait. Call it yourself."


def test_a_person_who_answers_at_once_is_asked_for_the_child() -> None:
    asked: list[str] = []

    def approver(request: Any) -> bool:
        asked.append(request.context.agent)
        return True

    made = front([("sign", {"path": "a"})], "Signed.", tools=["sign"], host={"approver": approver})
    assert (asked, told(made)) == (["main/reader"], "Signed.")


def test_a_cancelled_run_ends_the_agents_that_it_has_started() -> None:
    begun, stop = threading.Event(), Cancellation()

    @tool(category="read")
    def read_slowly(*, context: ToolContext) -> str:
        """Read slowly."""
        begun.set()
        ended = threading.Event()
        context.on_abandoned(ended.set)
        assert ended.wait(30)
        return "read"

    answering = ScriptedModel([("read_slowly", {})], "Never.")
    reader = Agent[str](Prompt.of("demo", "reader"), adapter=answering)
    tools = [read_slowly, reader.as_tool("reader", "Ask.")]
    prompt = Prompt.of("demo", "front", [MarkdownSection(key="f", title="F", tools=tools)])
    with Host(discover=False) as host:
        agent = Agent[str](prompt, adapter=ScriptedModel(ASKED, "Done."), host=host)
        ended: list[Any] = []
        thread = threading.Thread(
            target=lambda: ended.append(agent.run("Look.", cancellation=stop))
        )
        thread.start()
        assert begun.wait(30)
        stop.cancel()
        thread.join(30)
    assert [each.stop_reason for each in ended] == [StopReason.CANCELLED]
    assert len(answering.requests) == 1


def test_a_run_in_a_given_child_has_its_own_text_and_the_request_is_not_the_users() -> None:
    seen: list[Any] = []

    @tool(category="read")
    def read_request(*, context: ToolContext) -> str:
        """Read the request."""
        seen.append(([turn.text for turn in context.request], context.budget_tracker))
        return "read"

    model = ScriptedModel([("read_request", {})], "Done.")
    agent = Agent[str](
        Prompt.of("demo", "own", [MarkdownSection(key="o", title="Own text")]), adapter=model
    )
    with (
        Host(discover=False, tools=[read_request, read_file]) as host,
        host.executor(request="By the user.") as tools,
        tools.child("reader", tools=["read_request"], session="own") as child,
    ):
        assert agent.run("By a model.", executor=child).text == "Done."
        assert len(child.session[Message].all()) == 4
        assert tools.session[Message].all() == []
        assert tools.resources.get(BudgetTracker, None) is None  # type: ignore[type-abstract]
        assert not child.dispatch(ToolCall("read_file", {"path": "a"})).success
    assert model.requests[0].system.startswith("# Own text")
    assert seen == [(["By the user."], None)]
