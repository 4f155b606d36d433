"""pydantic-ai: its real agents, with a model that follows a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import Tool, ToolApproved, ToolDenied

from toolstile.testing import Hosts
from toolstile_hookspecs import (
    HOST_TIMEOUT,
    Answer,
    ApprovalAnswer,
    ExecutorHandle,
    ForeignTool,
    Status,
    ToolCall,
    ToolInvoked,
)
from toolstile_hookspecs.testing import FrameworkAdapterContract
from toolstile_hookspecs.testing.frameworks import (
    AgentRun,
    FrameworkAgent,
    Functions,
    ModelRead,
    Script,
)
from toolstile_plugins.adapters.pydantic_ai import foreign_tools, governed, toolset


class PydanticAgent(FrameworkAgent):
    """Agents with a `FunctionModel`."""

    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        return foreign_tools(FunctionToolset(list(functions)))

    async def run(
        self, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        return _run_of(await _agent(tools, script, functions).run("go"))

    async def run_within(
        self, seconds: float, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        return _run_of(await _agent(tools, script, functions).run("go", timeout=seconds))

    async def resume(
        self,
        tools: ExecutorHandle,
        script: Script,
        state: str,
        answers: Mapping[str, ApprovalAnswer],
        functions: Functions = None,
    ) -> AgentRun:
        kept = json.loads(state)
        ended = await _agent(tools, script, functions).run(
            message_history=ModelMessagesTypeAdapter.validate_python(kept["messages"]),
            deferred_tool_results=DeferredToolResults(
                approvals={id_: _approval(answer) for id_, answer in answers.items()},
                metadata=kept["metadata"],
            ),
        )
        return _run_of(ended)


def _replies(script: Script) -> Callable[[list[ModelMessage], AgentInfo], ModelResponse]:
    def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn == len(script):
            return ModelResponse(parts=[TextPart("done")])
        calls = [
            ToolCallPart(call.name, cast("Any", call.arguments), tool_call_id=call.id)
            for call in script[turn]
        ]
        return ModelResponse(parts=calls)

    return reply


def _agent(tools: ExecutorHandle, script: Script, functions: Functions) -> Agent[Any, Any]:
    own = toolset(tools) if functions is None else governed(FunctionToolset(list(functions)), tools)
    model = FunctionModel(_replies(script))
    return Agent(model, toolsets=[own], output_type=[str, DeferredToolRequests])


def _approval(answer: ApprovalAnswer) -> ToolApproved | ToolDenied:
    if answer.answer is Answer.DENIED:
        return ToolDenied(answer.reason or "No.")
    return ToolApproved(override_args=cast("Any", answer.arguments))


def _run_of(ended: Any) -> AgentRun:
    read: dict[str, ModelRead] = {}
    for message in ended.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                read[part.tool_call_id] = ModelRead(
                    part.model_response_str(), part.outcome != "success"
                )
    if not isinstance(ended.output, DeferredToolRequests):
        return AgentRun(read, ended.output)
    messages = json.loads(ended.all_messages_json())
    metadata = ended.output.metadata
    return AgentRun(read, None, json.dumps({"messages": messages, "metadata": metadata}), metadata)


class TestPydanticAI(FrameworkAdapterContract):
    @pytest.fixture
    def agent(self) -> FrameworkAgent:
        return PydanticAgent()


AGENT, SUITE = PydanticAgent, TestPydanticAI


def test_the_timeouts_of_their_tools_are_those_of_the_calls() -> None:
    async def wait() -> None:
        """Wait."""

    async def hurry() -> None:
        """Hurry."""

    toolset = FunctionToolset([wait, Tool(hurry, timeout=2)], timeout=60)
    assert [made.timeout for made in foreign_tools(toolset)] == [60, 2]
    (made,) = foreign_tools(FunctionToolset([wait]))
    assert made.timeout is HOST_TIMEOUT


def test_a_tool_that_exceeds_its_own_timeout_has_timed_out(toolstile_host: Hosts) -> None:
    async def hurry() -> None:
        """Hurry, too slowly."""
        await asyncio.sleep(20)

    theirs = FunctionToolset([Tool(hurry, timeout=0.05)])
    with toolstile_host().executor(tools=foreign_tools(theirs)) as tools:
        model = FunctionModel(_replies([[ToolCall("hurry", {}, id="c1")]]))
        ended = asyncio.run(Agent(model, toolsets=[governed(theirs, tools)]).run("go"))
        assert "Check for these effects before you retry." in _run_of(ended).read["c1"].text
        assert [event.status for event in tools.session[ToolInvoked].all()] == [Status.TIMED_OUT]
