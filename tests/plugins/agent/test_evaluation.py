"""An adapter evaluates prompts itself: step by step, or as a whole run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, Session, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    ApprovalAnswer,
    ConfigurationError,
    Deadline,
    StateError,
    ToolResult,
)
from toolstile_hookspecs.agents.messages import Message, Role, StopReason, Usage
from toolstile_hookspecs.agents.provider import CallDelta, Delta
from toolstile_plugins.agent import AgentConfig, ModelReplied, RunFailed
from toolstile_plugins.agent.providers.base import Evaluation


class Model(Evaluation, ScriptedModel):
    """A scripted adapter that evaluates."""

    def __init__(self, *script: Any, host: Host | None = None) -> None:
        super().__init__(*script)
        self.host = host


@dataclass(frozen=True)
class Count:
    files: int


@tool(category="write", contained=True)
def write_file(path: str, overwrite: bool = False) -> str:
    """Write a file."""
    if not overwrite:
        return ToolResult.error(f"{path} already exists. Use overwrite=true, then retry.")
    return f"wrote {path}"


@tool(requires_confirmation=True)
def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


PROMPT = Prompt.of(
    "demo", "files", [MarkdownSection(key="f", title="Files", tools=[write_file, erase])]
)
FIRST = [("write_file", {"path": "a"})]
AGAIN = [("write_file", {"path": "a", "overwrite": True})]


@pytest.fixture(params=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return request.param == "async"


def step(model: Model, is_async: bool, **given: Any) -> Any:
    if is_async:
        return asyncio.run(model.astep(PROMPT, **given))
    return model.step(PROMPT, **given)


def evaluate(model: Model, is_async: bool, prompt: Prompt = PROMPT, **given: Any) -> Any:
    if is_async:
        return asyncio.run(model.aevaluate(prompt, **given))
    return model.evaluate(prompt, **given)


def test_the_model_recovers_from_a_failure_step_by_step(is_async: bool):
    model = Model(FIRST, AGAIN, "Written.")
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as tools:
        session = tools.session
        response = step(model, is_async, session=session)
        assert response.stop_reason == "tool_use"
        assert response.tool_calls[0].name == "write_file"
        assert response.tool_calls[0].params == {"path": "a"}

        outcome = tools.dispatch(response.tool_calls[0].as_call())
        assert not outcome.success

        response = step(model, is_async, session=session, tool_results=[outcome])
        assert response.stop_reason == "tool_use"
        assert response.tool_calls[0].params["overwrite"] is True
        assert "already exists" in model.requests[1].messages[-1].answers[0].text

        outcome = tools.dispatch(response.tool_calls[0].as_call())
        assert outcome.success
        response = step(model, is_async, session=session, tool_results=[outcome])

    assert (response.stop_reason, response.text) == ("end", "Written.")
    roles = [message.role for message in session[Message].all()]
    assert roles == [Role.USER, *[Role.ASSISTANT, Role.TOOL] * 2, Role.ASSISTANT]


def test_results_may_be_texts_in_the_order_of_the_calls(is_async: bool):
    model = Model(FIRST + AGAIN, "Written.")
    session = Session()
    step(model, is_async, session=session, said="Write a.")
    step(model, is_async, session=session, tool_results=["it is there", ValueError("broken")])

    told = model.requests[1].messages[-1].answers
    assert [(each.call_id, each.is_error) for each in told] == [
        ("call_1_1", False),
        ("call_1_2", True),
    ]
    assert told[0].text == "it is there"


@pytest.mark.parametrize(
    ("results", "why"),
    [((), "have no result yet: write_file, write_file"), (["one"], "waits for 2 results")],
)
def test_each_call_needs_a_result(is_async: bool, results: Any, why: str):
    model = Model(FIRST + AGAIN, "never")
    session = Session()
    step(model, is_async, session=session)
    with pytest.raises(StateError, match=why):
        step(model, is_async, session=session, tool_results=results)
    assert len(model.requests) == 1


def test_arguments_that_are_no_object_have_no_params():
    turn = Model([("write_file", {})]).step(PROMPT, session=Session())
    [call] = turn.tool_calls
    assert call.params == {}
    assert type(call)("1", "write_file", '{"path"').params == {}
    assert type(call)("1", "write_file", "[1]").params == {}


def test_a_step_asks_for_the_output_of_the_prompt():
    model = Model('{"files": 2}')
    prompt = Prompt(PromptTemplate("demo", "count", output=Count))
    model.step(prompt, session=Session(), config=AgentConfig(settings={"seed": 1}, timeout=3))

    [request] = model.requests
    assert request.output is not None
    assert list(request.output["properties"]) == ["files"]
    assert (request.settings, request.timeout) == ({"seed": 1}, 3)


def test_a_run_uses_the_host_of_the_adapter(is_async: bool):
    with Host(discover=False) as host:
        model = Model(FIRST, AGAIN, "Written.", host=host)
        result = evaluate(model, is_async, said="Write a.")

    assert (result.text, result.turns, result.success) == ("Written.", 3, True)
    assert result.messages[0] == Message.user("Write a.", result.run_context.request_id)
    assert result.messages[-1].text == "Written."
    assert result.tool_calls == ()


def test_a_run_uses_the_executor_that_is_given(is_async: bool):
    heard: list[Delta] = []
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as tools:
        result = evaluate(
            Model(AGAIN, "Written."), is_async, executor=tools, said="Go", listen=heard.append
        )
        assert result.session_id == tools.session.id
        assert tools.session[Message].all() == result.messages
        # It is still open.
        assert tools.dispatch(result.messages[1].calls[0].as_call()).success
    [delta, text] = heard
    assert isinstance(delta, CallDelta)
    assert (delta.name, text) == ("write_file", "Written.")


def test_a_run_goes_on_with_the_results_of_a_step(is_async: bool):
    model = Model(FIRST, AGAIN, "Written.")
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as tools:
        [call] = model.step(PROMPT, session=tools.session).tool_calls
        result = evaluate(
            model, is_async, executor=tools, tool_results=[tools.dispatch(call.as_call())]
        )

    assert (result.text, result.turns) == ("Written.", 2)


def test_a_run_tells_of_the_calls_that_wait(is_async: bool):
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t-1")) as host:
        result = evaluate(Model([("erase", {"path": "a"})], host=host), is_async)

    assert result.stop_reason is StopReason.PENDING
    assert [(call.name, call.params) for call in result.tool_calls] == [("erase", {"path": "a"})]


def test_a_run_needs_a_host(is_async: bool):
    with pytest.raises(ConfigurationError, match="give executor="):
        evaluate(Model("never"), is_async)


def test_a_step_is_bounded_and_told_as_a_reply_of_a_run_is(is_async: bool):
    told: list[ModelReplied] = []
    with Host(discover=False) as host, host.executor(prompt=PROMPT) as tools:
        tools.session.dispatcher.subscribe(ModelReplied, told.append)
        step(Model("Hello."), is_async, executor=tools)
        assert [each.turn for each in tools.session[ModelReplied].all()] == [1]
        with pytest.raises(RunFailed, match="deadline"):
            step(Model("never"), is_async, executor=tools, deadline=Deadline.after(0))
    assert [(each.stop_reason, each.usage) for each in told] == [(StopReason.END, Usage(100, 10))]


@pytest.mark.parametrize("ask", [step, evaluate])
def test_an_argument_that_it_does_not_take_is_refused(is_async: bool, ask: Any):
    with pytest.raises(TypeError, match=r"takes no sessions; it takes .*tool_results"):
        ask(Model("never"), is_async, session=Session(), sessions=Session())


def test_a_step_needs_a_conversation(is_async: bool):
    with pytest.raises(ConfigurationError, match="give session="):
        step(Model("never"), is_async)
