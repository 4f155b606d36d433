"""pydantic-ai: its real agents, with a model that follows a script."""

from __future__ import annotations

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
from pydantic_ai.tools import ToolApproved, ToolDenied

from toolstile_hookspecs import Answer, ApprovalAnswer, ExecutorHandle, ForeignTool
from toolstile_hookspecs.testing import FrameworkAdapterContract
from toolstile_hookspecs.testing.frameworks.framework_agents import (
    AgentRun,
    FrameworkAgent,
    ModelRead,
    Script,
)
from toolstile_plugins.adapters.pydantic_ai import foreign_tools, governed, toolset

Functions = Sequence[Callable[..., Any]] | None


class PydanticAgent(FrameworkAgent):
    """Agents with a `FunctionModel`."""

    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        return foreign_tools(FunctionToolset(list(functions)))

    async def run(
        self, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        return _run_of(await _agent(tools, script, functions).run("go"))

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


def _agent(tools: ExecutorHandle, script: Script, functions: Functions) -> Agent[Any, Any]:
    def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        if turn == len(script):
            return ModelResponse(parts=[TextPart("done")])
        calls = [
            ToolCallPart(call.name, cast("Any", call.arguments), tool_call_id=call.id)
            for call in script[turn]
        ]
        return ModelResponse(parts=calls)

    own = toolset(tools) if functions is None else governed(FunctionToolset(list(functions)), tools)
    return Agent(FunctionModel(reply), toolsets=[own], output_type=[str, DeferredToolRequests])


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
