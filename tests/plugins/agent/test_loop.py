"""The loop asks the model, carries out its calls and tells it what came of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import ApprovalAnswer, ToolContext, ToolResult
from toolstile_hookspecs.agents.messages import Message, Role, StopReason, Turn, Usage
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    OutputError,
    RunFailed,
    RunState,
    TicketAnswer,
)


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Sum:
    a: int
    b: int


@tool(category="write", contained=True)
def note(text: str, *, context: ToolContext) -> str:
    """Write a note."""
    context.session[Note].append(Note(text))
    if "fail" in text:
        return ToolResult.error("The pen broke. Use another text, then retry.")
    return f"noted {text}"


@tool(requires_confirmation=True)
def send(to: str) -> str:
    """Send the notes."""
    return f"sent to {to}"


PROMPT = Prompt.of("demo", "notes", [MarkdownSection(key="n", title="Notes", tools=[note, send])])


@pytest.fixture(params=["sync", "async"])
def execute(request: pytest.FixtureRequest) -> Any:
    def run(agent: Agent[Any], said: str | None, **given: Any) -> Any:
        if request.param == "sync":
            return agent.execute(said, **given)
        return asyncio.run(agent.aexecute(said, **given))

    return run


def test_a_text_without_calls_ends_the_run(execute: Any) -> None:
    model = ScriptedModel("Hello.")
    with Host(discover=False) as host:
        result, session = execute(Agent(PROMPT, adapter=model, host=host), "Hi")

    assert (result.success, result.text, result.turns) == (True, "Hello.", 1)
    assert result.usage == Usage(100, 10)
    assert [message.role for message in session[Message].all()] == [Role.USER, Role.ASSISTANT]
    assert model.requests[0].system.startswith("# Notes")
    assert [tool.name for tool in model.requests[0].tools] == ["note", "send"]


def test_calls_are_carried_out_and_their_results_go_back_in_order(execute: Any) -> None:
    model = ScriptedModel([("note", {"text": "a"}), ("note", {"text": "fail"})], "Done.")
    with Host(discover=False) as host:
        result, session = execute(Agent(PROMPT, adapter=model, host=host), "Write")

    assert result.text == "Done."
    told = model.requests[1].messages[-1].answers
    assert [answer.text for answer in told] == [
        "noted a",
        "The pen broke. Use another text, then retry.",
    ]
    assert [answer.call_id for answer in told] == ["call_1_1", "call_1_2"]
    assert list(session[Note].all()) == [Note("a")]


def test_a_call_that_waits_ends_the_run_as_pending_and_is_resumed_from_json(execute: Any) -> None:
    model = ScriptedModel([("note", {"text": "a"}), ("send", {"to": "Ada"})], "Sent.")
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t-7")) as host:
        config = AgentConfig(slices=[Note])
        agent = Agent[str](PROMPT, adapter=model, host=host, config=config)
        result, _ = execute(agent, "Go")
        assert result.stop_reason is StopReason.PENDING
        text = result.state.to_json()
        assert result.waiting[0].approval_token not in text
        state = RunState.from_json(text)
        assert [(each.call.name, each.ticket) for each in state.waiting] == [("send", "t-7")]

        token = result.waiting[0].approval_token
        answers = {"t-7": TicketAnswer(token, ApprovalAnswer.approve())}
        resumed, session = agent.resume(state, answers)

    assert resumed.text == "Sent."
    assert resumed.turns == 2
    answered = [a for m in session[Message].all() for a in m.answers]
    assert [(a.name, a.text) for a in answered] == [("note", "noted a"), ("send", "sent to Ada")]
    assert list(session[Note].all()) == [Note("a")]


def test_what_is_said_while_a_call_waits_comes_after_its_result(execute: Any) -> None:
    model = ScriptedModel([("note", {"text": "a"}), ("send", {"to": "Ada"})], "Sent.")
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t-7")) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        _, session = execute(agent, "Go")
        waits, _ = execute(agent, "And be kind.", session=session)
        assert waits.stop_reason is StopReason.PENDING
        assert waits.state is not None
        token = waits.waiting[0].approval_token
        answers = {"t-7": TicketAnswer(token, ApprovalAnswer.approve())}
        resumed, _ = agent.resume(waits.state, answers, session=session)

    assert resumed.text == "Sent."
    asked = model.requests[1].messages
    roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER]
    assert [message.role for message in asked] == roles
    assert [answer.name for answer in asked[2].answers] == ["note", "send"]
    assert asked[3].text == "And be kind."


def test_calls_without_an_answer_go_on_waiting(execute: Any) -> None:
    model = ScriptedModel([("send", {"to": "Ada"})], "never")
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending()) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        result, _ = execute(agent, "Go")
        again, _ = agent.resume(result.state, {})

    assert again.stop_reason is StopReason.PENDING
    assert again.state.waiting == result.state.waiting
    assert len(model.requests) == 1


def test_an_answer_that_does_not_fit_is_asked_for_again(execute: Any) -> None:
    prompt = Prompt(PromptTemplate("demo", "count", output=Note))
    model = ScriptedModel("many", '{"text": 3}', '{"text": "three"}')
    with Host(discover=False) as host:
        result, _ = execute(Agent(prompt, adapter=model, host=host), "How many?")

    assert result.output == Note("three")
    assert "Answer again" in model.requests[1].messages[-1].text
    assert "text" in model.requests[2].messages[-1].text


class Model(BaseModel):
    text: str


class Typed(TypedDict):
    text: str


ONE, LISTED = '{"text": "a"}', '{"answer": [{"text": "a"}]}'


@pytest.mark.parametrize(
    ("type_", "answer", "output"),
    [
        (Note, ONE, Note("a")),
        (Model, ONE, Model(text="a")),
        (Typed, ONE, {"text": "a"}),
        (list[Note], LISTED, [Note("a")]),
        (list[Typed], LISTED, [{"text": "a"}]),
        (list[Model], '```json\n[{"text": "a"}]\n```', [Model(text="a")]),
    ],
    ids=str,
)
def test_an_answer_has_the_type_of_the_prompts_output(type_: Any, answer: str, output: Any) -> None:
    model = ScriptedModel(answer)
    prompt = Prompt(PromptTemplate("demo", "typed", output=type_))
    with Host(discover=False) as host:
        assert Agent[Any](prompt, adapter=model, host=host).run("Go").output == output
    [request] = model.requests
    assert request.output is not None
    assert request.output["type"] == "object"


def test_all_faults_of_an_answer_are_told_and_the_last_one_is_raised_as_it_came(
    execute: Any,
) -> None:
    prompt = Prompt(PromptTemplate("demo", "sum", output=Sum))
    model = ScriptedModel(*['{"a": "x", "c": 3}'] * 2)
    config = AgentConfig(output_retries=1)
    with Host(discover=False) as host, pytest.raises(OutputError, match="does not fit") as failed:
        execute(Agent(prompt, adapter=model, host=host, config=config), "Go")

    assert failed.value.raw == '{"a": "x", "c": 3}'
    told = model.requests[1].messages[-1].text
    assert all(f"'{name}'" in told or f"- {name}" in told for name in "abc"), told


def test_an_answer_that_is_no_json_is_told_as_that(execute: Any) -> None:
    prompt = Prompt(PromptTemplate("demo", "counts", output=list[int]))
    model = ScriptedModel("many", "[3]")
    with Host(discover=False) as host:
        result, _ = execute(Agent(prompt, adapter=model, host=host), "How many?")

    assert result.output == [3]
    assert "not valid JSON" in model.requests[1].messages[-1].text


def test_the_number_of_turns_is_bounded(execute: Any) -> None:
    model = ScriptedModel(*[[("note", {"text": "a"})]] * 3)
    config = AgentConfig(max_turns=2)
    with Host(discover=False) as host, pytest.raises(RunFailed, match="no end in 2") as failed:
        execute(Agent(PROMPT, adapter=model, host=host, config=config), "Go")

    assert failed.value.stop_reason is StopReason.TURNS
    assert failed.value.result is not None
    assert failed.value.result.turns == 2


def test_a_reply_that_is_cut_off_is_no_success_and_its_calls_do_not_run(execute: Any) -> None:
    whole = ScriptedModel([("note", {"text": "a"})]).send(None)  # type: ignore[arg-type]
    model = ScriptedModel(Turn(whole.message, StopReason.MAX_TOKENS), "Done.")
    with Host(discover=False) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        with host.executor() as tools:
            session = tools.session
        with pytest.raises(RunFailed, match="cut off"):
            execute(agent, "Go", session=session)
        assert list(session[Note].all()) == []
        result, _ = execute(agent, "Go on", session=session)

    assert result.text == "Done."
    assert "cut off" in model.requests[1].messages[2].answers[0].text
