"""OpenAI Agents SDK: its real runner, with a model that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    RunState,
    Tool,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolOutputText,
    Usage,
    WebSearchTool,
    function_tool,
    set_trace_processors,
    tool_input_guardrail,
    trace,
)
from agents.tool_context import ToolContext
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from tests.plugins.adapters.order_tools import erase, later, place, statuses

from toolstile import Session
from toolstile.testing import Hosts
from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    DefinitionError,
    ExecutorHandle,
    ForeignTool,
    IdempotencyConfig,
    MarkdownSection,
    Prompt,
    StateError,
    Status,
    ToolCall,
    Visibility,
    tool,
)
from toolstile_hookspecs.testing import FrameworkAdapterContract
from toolstile_hookspecs.testing.frameworks import (
    AgentRun,
    FrameworkAgent,
    Functions,
    ModelRead,
    Script,
)
from toolstile_plugins.adapters.openai_agents import (
    answer,
    foreign_tools,
    governed,
    question,
    toolset,
)

# One Python is enough for what frameworks do.
pytestmark = pytest.mark.slow


class Scripted(Model):
    """Calls what its script says after the turns that stand in its input."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.shown: list[list[str]] = []

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the SDK's word
        model_settings: Any,
        tools: list[Tool],
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        self.shown.append([each.name for each in tools])
        turn = sum(f'"{calls[0].id}"' in json.dumps(input) for calls in self.script)
        if turn == len(self.script):
            return _response(_said("done"))
        return _response(*map(_called, self.script[turn]))

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _response(*output: Any) -> ModelResponse:
    return ModelResponse(output=list(output), usage=Usage(requests=1), response_id=None)


def _said(text: str) -> ResponseOutputMessage:
    said = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[said]
    )


def _called(call: ToolCall) -> ResponseFunctionToolCall:
    given = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return ResponseFunctionToolCall(
        type="function_call", call_id=call.id, name=call.name, arguments=given
    )


QUIET = RunConfig(tracing_disabled=True)
UNSEEN = RunConfig(tracing_disabled=True, trace_include_sensitive_data=False)


class OpenAIAgent(FrameworkAgent):
    """Agents with a model that follows a script."""

    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        return foreign_tools(_made(functions))

    async def run(
        self, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        ended = await Runner.run(_agent(tools, script, functions), "go", run_config=QUIET)
        return _run_of(tools, ended)

    async def resume(
        self,
        tools: ExecutorHandle,
        script: Script,
        state: str,
        answers: Mapping[str, ApprovalAnswer],
        functions: Functions = None,
    ) -> AgentRun:
        agent = _agent(tools, script, functions)
        read = await RunState.from_json(agent, json.loads(state))
        for item in read.get_interruptions():
            given = answers[item.call_id or ""]
            if given.answer is Answer.APPROVED:
                read.approve(item)
            else:
                answer(tools, read, item, given)
        return _run_of(tools, await Runner.run(agent, read, run_config=QUIET))


def _made(functions: Sequence[Callable[..., Any]]) -> list[Tool]:
    return [function_tool(each) for each in functions]


def _agent(tools: ExecutorHandle, script: Script, functions: Functions = None) -> Agent[Any]:
    own = toolset(tools) if functions is None else governed(_made(functions), tools)
    return Agent(name="desk", model=Scripted(script), tools=own)


def _run_of(tools: ExecutorHandle, ended: Any) -> AgentRun:
    read = {
        item["call_id"]: ModelRead(item["output"])
        for item in ended.to_input_list()
        if item.get("type") == "function_call_output"
    }
    if not ended.interruptions:
        return AgentRun(read, ended.final_output)
    questions = {item.call_id: question(tools, item) for item in ended.interruptions}
    return AgentRun(read, None, json.dumps(ended.to_state().to_json()), questions)


class TestOpenAIAgents(FrameworkAdapterContract):
    deadlines = False

    @pytest.fixture
    def agent(self) -> FrameworkAgent:
        return OpenAIAgent()


AGENT, SUITE = OpenAIAgent, TestOpenAIAgents


# --- Beyond the suite -------------------------------------------------------------------------


def made(name: str, given: str, id_: str = "c1") -> ToolCall:
    return ToolCall(name, given, id=id_)


def run(agent: Agent[Any], given: Any = "go", **options: Any) -> Any:
    return asyncio.run(Runner.run(agent, given, run_config=QUIET, **options))


def read_by_model(ended: Any) -> list[Any]:
    items = ended.to_input_list()
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def fixed(theirs: Sequence[Tool], tools: ExecutorHandle, *script: Sequence[ToolCall]) -> Agent[Any]:
    return Agent(name="a", model=Scripted(script), tools=governed(theirs, tools))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ('{"item": ', "Invalid arguments for place: not valid JSON"),
        ("[1]", "Invalid arguments for place"),
        ('{"item": "cup", "item": "mug"}', "Invalid arguments for place"),
        ("", "item: required, but missing"),
    ],
)
def test_the_model_is_told_of_arguments_that_are_no_object(
    toolstile_host: Hosts, given: str, text: str
) -> None:
    # The SDK would interrupt the run for them, to have a person read them.
    with toolstile_host(tools=[place]).executor() as tools:
        ended = run(_agent(tools, [[made("place", given)]]))
        assert ended.interruptions == []
        assert text in read_by_model(ended)[0]


def test_a_tool_without_arguments_takes_none_at_all(toolstile_host: Hosts) -> None:
    @tool(category="read")
    def now() -> str:
        """Tell the time."""
        return "noon"

    with toolstile_host(tools=[now]).executor() as tools:
        assert read_by_model(run(_agent(tools, [[made("now", "")]]))) == ["noon"]


def test_arguments_that_spans_do_not_show_reach_the_tool_all_the_same(
    toolstile_host: Hosts,
) -> None:
    with toolstile_host(tools=[place]).executor() as tools:
        agent = _agent(tools, [[made("place", '{"item": "cup", "quantity": "x"}')]])
        ended = asyncio.run(Runner.run(agent, "go", run_config=UNSEEN))
        assert 'got "x"' in read_by_model(ended)[0]


def test_where_spans_show_nothing_the_sdk_asks_about_what_is_no_object(
    toolstile_host: Hosts,
) -> None:
    with toolstile_host(tools=[place]).executor() as tools:
        agent = _agent(tools, [[made("place", "{")]])
        state = asyncio.run(Runner.run(agent, "go", run_config=UNSEEN)).to_state()
        (item,) = state.get_interruptions()
        assert question(tools, item) == {}
        state.approve(item)
        assert "not valid JSON" in read_by_model(run(agent, state))[0]


def test_sections_that_the_model_opens_have_their_tools_from_then_on(
    toolstile_host: Hosts,
) -> None:
    closed = MarkdownSection(
        key="more", title="More", tools=[place], visibility=Visibility.SUMMARY, summary="More."
    )
    prompt = Prompt.of("a", "b", [closed])
    script = [
        [made("open_sections", '{"section_keys": ["more"]}')],
        [made("place", '{"item": "cup"}', "c2")],
    ]
    with toolstile_host().executor(prompt=prompt) as tools:
        model = Scripted(script)
        texts = read_by_model(run(Agent(name="a", model=model, tools=toolset(tools))))
        assert texts == ["These sections are open now: more.", "1 x cup"]
        assert model.shown == [["read_section", "open_sections"], ["place"], ["place"]]


def test_a_turn_that_the_sdk_starts_one_by_one_does_not_stand_still(
    toolstile_host: Hosts,
) -> None:
    turn = [made("place", json.dumps({"item": f"item {n}"}), f"c{n}") for n in range(3)]
    with toolstile_host(tools=[place]).executor() as tools:
        one = RunConfig(
            tracing_disabled=True,
            tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1),
        )
        ended = asyncio.run(Runner.run(_agent(tools, [turn]), "go", run_config=one))
        assert read_by_model(ended) == [f"1 x item {n}" for n in range(3)]


def test_runs_side_by_side_whose_models_give_the_same_ids_keep_their_calls(
    toolstile_host: Hosts,
) -> None:
    async def both(tools: ExecutorHandle) -> list[Any]:
        agents = [
            _agent(tools, [[made("place", json.dumps({"item": item}))]]) for item in ("cup", "mug")
        ]
        running = [Runner.run(agent, "go", run_config=QUIET) for agent in agents]
        return [read_by_model(ended) for ended in await asyncio.gather(*running)]

    with toolstile_host(tools=[place]).executor() as tools:
        assert asyncio.run(both(tools)) == [["1 x cup"], ["1 x mug"]]


# --- A person decides


def test_a_question_tells_what_the_person_has_to_know(toolstile_host: Hosts) -> None:
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        ended = run(_agent(tools, [[made("erase", '{"name": "a"}')]]))
        (item,) = ended.interruptions
        asked = question(tools, item)
        assert asked["question"].startswith("erase waits for a person's approval.")
        assert asked["toolstile_token"]


def test_runs_of_a_session_that_wait_with_the_same_ids_are_told_apart(
    toolstile_host: Hosts,
) -> None:
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        agents = [
            _agent(tools, [[made("erase", json.dumps({"name": name}))]]) for name in ("a", "b")
        ]
        first, second = (run(agent).to_state() for agent in agents)
        (item,), (other,) = first.get_interruptions(), second.get_interruptions()
        assert question(tools, item)["toolstile_token"] != question(tools, other)["toolstile_token"]
        answer(tools, first, item, ApprovalAnswer.edit({"name": "c"}))
        answer(tools, second, other, ApprovalAnswer.deny("keep it"))
        (kept,) = read_by_model(run(agents[1], second))
        assert kept.startswith("A person did not approve erase: keep it.")
        assert read_by_model(run(agents[0], first)) == ["Erased c."]


def test_the_sdk_rejects_by_itself(toolstile_host: Hosts) -> None:
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        agent = _agent(tools, [[made("erase", '{"name": "a"}')]])
        state = run(agent).to_state()
        state.reject(state.get_interruptions()[0], rejection_message="Keep it.")
        assert read_by_model(run(agent, state)) == ["Keep it."]
        assert statuses(tools) == [Status.PENDING]


def test_a_denial_with_an_answer_passes_the_stages(toolstile_host: Hosts) -> None:
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        agent = _agent(tools, [[made("erase", '{"name": "a"}')]])
        state = run(agent).to_state()
        answer(tools, state, state.get_interruptions()[0], ApprovalAnswer.deny("keep it"))
        (text,) = read_by_model(run(agent, state))
        assert text.startswith("A person did not approve erase: keep it.")
        assert statuses(tools) == [Status.PENDING, Status.DENIED]


def test_a_call_that_is_not_answered_waits_on(toolstile_host: Hosts) -> None:
    turn = [made("erase", json.dumps({"name": name}), name) for name in ("a", "b")]
    with toolstile_host(tools=[erase], approver=later).executor() as tools:
        agent = _agent(tools, [turn])
        state = run(agent).to_state()
        first, second = state.get_interruptions()
        answer(tools, state, first, given=True)
        ended = run(agent, state)
        assert [item.call_id for item in ended.interruptions] == [second.call_id]
        state = ended.to_state()
        state.approve(state.get_interruptions()[0])
        assert read_by_model(run(agent, state)) == ["Erased a.", "Erased b."]
        with pytest.raises(StateError, match="No call 'a' waits in the session"):
            answer(tools, state, first, given=True)


# --- Their tools


def test_what_no_call_of_ours_can_be_is_refused(toolstile_host: Hosts) -> None:
    mail = function_tool(_send)
    with (
        toolstile_host().executor(tools=foreign_tools([mail])) as tools,
        pytest.raises(DefinitionError, match="web_search is a WebSearchTool, which the SDK"),
    ):
        governed([mail, WebSearchTool()], tools)
    with (
        toolstile_host().executor(tools=[place]) as tools,
        pytest.raises(DefinitionError, match=r"host\.executor\(tools=foreign_tools\(theirs\)\)"),
    ):
        governed([mail], tools)


def test_our_tools_do_not_offer_theirs_twice(toolstile_host: Hosts) -> None:
    mail = function_tool(_send)
    with toolstile_host().executor(tools=[*foreign_tools([mail]), place]) as tools:
        names = [each.name for each in toolset(tools)]
        assert names == ["place", "read_section", "open_sections"]


def _send(to: str) -> str:
    """Send a mail."""
    return f"Sent to {to}."


def test_a_tool_that_asks_by_itself_is_asked_about_once(toolstile_host: Hosts) -> None:
    mail = function_tool(_send, needs_approval=True)
    with toolstile_host().executor(tools=foreign_tools([mail])) as tools:
        agent = fixed([mail], tools, [made("_send", '{"to": "ada"}')])
        state = run(agent).to_state()
        (item,) = state.get_interruptions()
        assert question(tools, item) == {}
        state.approve(item)
        assert read_by_model(run(agent, state)) == ["Sent to ada."]
        assert statuses(tools) == [Status.RAISED, Status.SUCCEEDED]


@pytest.mark.parametrize("given", ["", "{", "{}"])
def test_its_own_rule_asks_of_all_arguments(toolstile_host: Hosts, given: str) -> None:
    @function_tool(needs_approval=True)
    def launch() -> str:
        """Launch it."""
        return "launched"

    with toolstile_host().executor(tools=foreign_tools([launch])) as tools:
        ended = run(fixed([launch], tools, [made("launch", given)]))
        assert [item.name for item in ended.interruptions] == ["launch"]
        assert Status.SUCCEEDED not in statuses(tools)


def test_a_guardrail_that_answers_instead_ends_the_call(toolstile_host: Hosts) -> None:
    @tool_input_guardrail
    def no_bob(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("Bob gets no mail.")

    mail = function_tool(_send, tool_input_guardrails=[no_bob])
    with toolstile_host().executor(tools=foreign_tools([mail])) as tools:
        ended = run(fixed([mail], tools, [made("_send", '{"to": "bob"}')]))
        assert read_by_model(ended) == ["Bob gets no mail."]
        assert statuses(tools) == [Status.RAISED]


def test_its_own_timeout_ends_the_call(toolstile_host: Hosts) -> None:
    @function_tool(timeout=0.05)
    async def slow() -> str:
        """Take too long."""
        await asyncio.sleep(20)
        return "late"

    with toolstile_host().executor(tools=foreign_tools([slow])) as tools:
        assert [each.timeout for each in foreign_tools([slow])] == [None]
        ended = run(fixed([slow], tools, [made("slow", "{}")]))
        assert read_by_model(ended) == ["Tool 'slow' timed out after 0.05 seconds."]
        assert statuses(tools) == [Status.RAISED]


def test_a_tool_gets_its_own_context_and_gives_its_own_object(toolstile_host: Hosts) -> None:
    @function_tool
    def told(context: ToolContext[Any]) -> Any:
        """Tell its context."""
        return ToolOutputText(text=f"{context.tool_call_id} {context.tool_name} {context.context}")

    with toolstile_host().executor(tools=foreign_tools([told])) as tools:
        ended = run(fixed([told], tools, [made("told", "{}")]), context="ours")
        assert read_by_model(ended) == [[{"type": "input_text", "text": "c1 told ours"}]]


def test_an_agent_within_a_tool_asks_its_own_questions(toolstile_host: Hosts) -> None:
    mail = function_tool(_send, needs_approval=True)
    inner = Agent(
        name="inner", model=Scripted([[made("_send", '{"to": "ada"}', "i1")]]), tools=[mail]
    )
    helper = inner.as_tool("helper", "Help.")
    assert isinstance(helper, FunctionTool)
    with toolstile_host().executor(tools=foreign_tools([helper])) as tools:
        agent = fixed([helper], tools, [made("helper", '{"input": "hi"}')])
        state = run(agent).to_state()
        (item,) = state.get_interruptions()
        assert item.name == "_send"
        state.approve(item)
        assert read_by_model(run(agent, state)) == ["done"]
        assert statuses(tools) == [Status.RAISED, Status.SUCCEEDED]


# --- A state that is resumed twice


@pytest.fixture
def traced() -> RunConfig:
    """Tracing that sends nothing."""
    set_trace_processors([])
    return RunConfig()


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_state_that_is_resumed_again_after_its_process_died_makes_no_second_effect(
    toolstile_host: Hosts, tmp_path: Path, traced: RunConfig, is_traced: bool
) -> None:
    """Without tracing, the SDK gives a run no id: the page of the adapter says so."""
    charged: list[int] = []

    def charge(euros: int) -> str:
        charged.append(euros)
        return f"Receipt {len(charged)}."

    theirs = [function_tool(charge, needs_approval=True)]
    known = [
        replace(each, idempotency=IdempotencyConfig(scope="call")) for each in foreign_tools(theirs)
    ]
    config = traced if is_traced else QUIET
    script = [[made("charge", '{"euros": 5}')]]

    async def resumed(tools: ExecutorHandle, text: str) -> Any:
        agent = fixed(theirs, tools, *script)
        state = await RunState.from_string(agent, text)
        for item in state.get_interruptions():
            state.approve(item)
        return await Runner.run(agent, state, run_config=config)

    host = toolstile_host("ledger", settings={"ledger": {"path": tmp_path / "ledger.db"}})
    states = []
    for task in ("go", "go", "go on"):
        with host.executor(tools=known, session=Session(id="desk-7")) as tools:
            ended = asyncio.run(Runner.run(fixed(theirs, tools, *script), task, run_config=config))
            states.append(ended.to_state().to_string())
    read = []
    for text in [*states, *states]:
        with host.executor(tools=known, session=Session(id="desk-7")) as tools:
            read += read_by_model(asyncio.run(resumed(tools, text)))
    assert charged == [5] * (3 if is_traced else 6)
    if is_traced:
        assert read == ["Receipt 1.", "Receipt 2.", "Receipt 3."] * 2


def test_runs_of_one_trace_whose_models_give_the_same_ids_make_their_calls(
    toolstile_host: Hosts, tmp_path: Path, traced: RunConfig
) -> None:
    charged: list[int] = []

    @tool(idempotency=IdempotencyConfig(scope="call"))
    def charge(euros: int) -> str:
        """Charge the card."""
        charged.append(euros)
        return "Charged."

    script = [[made("charge", '{"euros": 5}', f"call_{n}")] for n in range(2)]
    host = toolstile_host("ledger", settings={"ledger": {"path": tmp_path / "ledger.db"}})
    with host.executor(tools=[charge]) as tools, trace("a conversation"):
        for task in ("go", "again"):
            asyncio.run(Runner.run(_agent(tools, script), task, run_config=traced))
    assert charged == [5] * 4
