"""A run in an executor that was given, and the other ends that a run has."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pydantic import SecretStr

from toolstile import Host, MarkdownSection, Prompt, ToolCall
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    Deadline,
    Heartbeat,
    PromptEvaluationError,
    RunContext,
    ToolContext,
    Visibility,
    VisibilityExpansionRequired,
    tool,
)
from toolstile_hookspecs.agents.messages import StopReason, Turn
from toolstile_hookspecs.agents.provider import FaultType, ModelRequest, ProviderError
from toolstile_plugins.agent import Agent, AgentConfig, Budget, Phase, Retries, RunFailed
from toolstile_plugins.agent.budget import TokenBudgetTracker
from toolstile_plugins.agent.providers.litellm import LiteLLM


def prompt_of(*tools: Any) -> Prompt:
    return Prompt.of("demo", "desk", [MarkdownSection(key="d", title="Desk", tools=tools)])


@pytest.mark.parametrize("own", [False, True], ids=["of the host", "given"])
def test_calls_have_what_their_request_has_in_any_executor(own: bool) -> None:
    seen: list[Any] = []

    @tool
    def look(*, context: ToolContext) -> str:
        """Look."""
        seen.append(
            (context.adapter, context.heartbeat, context.run_context, context.budget_tracker)
        )
        return "seen"

    prompt, beats = prompt_of(look), Heartbeat()
    model = ScriptedModel([("look", {})], "Done.")
    given: dict[str, Any] = {
        "heartbeat": beats,
        "run_context": RunContext(request_id="r7"),
        "budget": Budget(max_total_tokens=1_000),
    }
    with Host(discover=False) as host:
        agent = Agent[str](prompt, adapter=model, host=host)
        if own:
            with host.executor(prompt=prompt) as tools:
                result, _ = agent.execute("Go", executor=tools, **given)
                tools.dispatch(ToolCall("look"))
        else:
            result, _ = agent.execute("Go", **given)
    adapter, heartbeat, context, tracker = seen[0]
    assert (adapter, heartbeat) == (model, beats)
    assert (context.request_id, context.run_id) == ("r7", result.run_context.run_id)
    assert isinstance(tracker, TokenBudgetTracker)
    assert tracker.budget.max_total_tokens == 1_000
    if own:
        # The executor is as it was before.
        assert [seen[1][0], seen[1][1], seen[1][3]] == [None, None, None]
        assert seen[1][2] != context


def test_an_executors_own_tracker_comes_back() -> None:
    from toolstile_hookspecs import Binding, BudgetTracker

    seen: list[Any] = []

    @tool
    def look(*, context: ToolContext) -> str:
        """Look."""
        seen.append(context.budget_tracker)
        return "seen"

    prompt, own = prompt_of(look), TokenBudgetTracker(Budget(max_total_tokens=5))
    bound = (Binding.instance(BudgetTracker, own),)
    agent = Agent[str](prompt, adapter=ScriptedModel([("look", {})], "Done.", [("look", {})], "."))
    with Host(discover=False) as host, host.executor(prompt=prompt, resources=bound) as tools:
        tools.dispatch(ToolCall("look"))
        agent.execute("Go", executor=tools, budget=Budget(max_total_tokens=900))
        agent.execute("Go", executor=tools)
        tools.dispatch(ToolCall("look"))
    assert [seen[0], *seen[2:]] == [own, own, own]
    assert seen[1].budget.max_total_tokens == 900


def test_an_adapter_of_litellm_keeps_its_host_to_itself() -> None:
    with Host(discover=False) as host:
        adapter = LiteLLM("m", host=host, api_base="http://localhost:1")
        assert adapter.host is host
        sent: dict[str, Any] = {}
        adapter.method(lambda **given: sent.update(given))(model="m")
    assert set(sent) == {"model", "api_base", "max_retries", "num_retries"}


# --- Sections that are open already -----------------------------------------------------------


@tool
def ask() -> str:
    """Ask."""
    return "asked"


HIDDEN = Prompt.of(
    "demo",
    "hidden",
    [
        MarkdownSection(key="d", title="Desk", tools=[ask]),
        MarkdownSection(
            key="s", title="Store", template="All.", summary="Some.", visibility=Visibility.SUMMARY
        ),
    ],
)


def asking(*more: Any) -> list[Any]:
    return [("open_sections", {"section_keys": ["s"]}), *more]


@pytest.mark.parametrize("more", [(), (("ask", {}),)], ids=["alone", "beside another call"])
@pytest.mark.parametrize("between", [False, True])
def test_asking_for_an_open_section_again_and_again_ends_the_run(more: Any, between: bool) -> None:
    replies: list[Any] = [asking()]
    for _ in range(12):
        replies += [asking(*more), *([[("ask", {})]] if between else [])]
    model = ScriptedModel(*replies, "Done.")
    config = AgentConfig(max_expansions=3)
    with Host(discover=False) as host:
        agent = Agent[str](HIDDEN, adapter=model, host=host, config=config)
        with pytest.raises(
            RunFailed, match=r"demo:hidden: the model .*sections.*, at last s\."
        ) as failed:
            agent.execute("Go")
    assert failed.value.phase is Phase.TOOL
    assert len(model.requests) <= 9


def test_a_handler_that_asks_for_an_open_section_ends_the_run_as_well() -> None:
    @tool
    def enter() -> str:
        """Enter."""
        raise VisibilityExpansionRequired(("s",), "to see")

    sections = [*HIDDEN.sections, MarkdownSection(key="e", title="Entry", tools=[enter])]
    prompt = Prompt.of("demo", "hidden", sections)
    replies = [[("enter", {}), ("ask", {})]] * 9
    with Host(discover=False) as host:
        agent = Agent[str](prompt, adapter=ScriptedModel(*replies), host=host)
        with pytest.raises(RunFailed, match=r"sections that it cannot open, at last s\."):
            agent.execute("Go")


# --- The text of a failed run -----------------------------------------------------------------


def test_a_secret_argument_is_masked_in_the_error() -> None:
    @tool
    def log_in(token: SecretStr) -> str:
        """Log in."""
        text = f"{token.get_secret_value()} was refused"
        raise PromptEvaluationError(text) from RuntimeError(text)

    prompt = prompt_of(log_in)
    reply = [("log_in", {"token": "tok-1234567"})]
    with Host(discover=False) as host:
        agent = Agent[str](prompt, adapter=ScriptedModel(reply), host=host)
        result = agent.run("Go")
        agent = Agent[str](prompt, adapter=ScriptedModel(reply), host=host)
        with pytest.raises(RunFailed) as failed:
            agent.execute("Go")
    assert result.error is not None
    assert result.error.endswith(" was refused")
    assert "tok-1234567" not in result.error
    assert "tok-1234567" not in str(failed.value)


# --- The deadline -----------------------------------------------------------------------------


class Slow:
    """A provider whose client gives up when the time that it was given is over."""

    name, model = "slow", "m"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def send(self, request: ModelRequest, listen: Any = None) -> Turn:
        assert request.timeout is not None
        time.sleep(request.timeout)
        if self._kind == "fault":
            raise ProviderError("no reply in time", FaultType.TIMEOUT)
        raise TimeoutError("timed out")

    async def asend(self, request: ModelRequest, listen: Any = None) -> Turn:
        return self.send(request, listen)

    def close(self) -> None:
        """Close nothing."""


@pytest.mark.parametrize("attempts", [1, 5])
@pytest.mark.parametrize("kind", ["fault", "error"])
def test_a_deadline_that_passes_while_the_provider_is_asked_is_the_end(
    kind: str, attempts: int
) -> None:
    config = AgentConfig(retries=Retries(attempts=attempts))
    with Host(discover=False) as host:
        agent = Agent[str](prompt_of(), adapter=Slow(kind), host=host, config=config)
        result = agent.run("Go", deadline=Deadline.after(0.2))
    assert result.stop_reason is StopReason.DEADLINE
    assert result.error == "The deadline of demo:desk has passed after 0 replies."
