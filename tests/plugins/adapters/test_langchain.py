"""LangChain and LangGraph: their real agents and graphs, with a model that follows a script."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

from toolstile_hookspecs import ApprovalAnswer, ExecutorHandle, ForeignTool
from toolstile_hookspecs.testing import FrameworkAdapterContract
from toolstile_hookspecs.testing.frameworks import (
    AgentRun,
    FrameworkAgent,
    Functions,
    ModelRead,
    Script,
)
from toolstile_plugins.adapters.langchain import foreign_tools, governed, toolset

# One Python is enough for what frameworks do.
pytestmark = pytest.mark.slow
THREAD: Any = {"configurable": {"thread_id": "1"}}
GO: Any = {"messages": [HumanMessage("go")]}


class ScriptedModel(BaseChatModel):
    """Calls what stands in its script at the number of its replies so far, then says `done`."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        reply = AIMessage("done")
        if turn < len(self.script):
            calls: list[Any] = [
                {"name": call.name, "args": call.arguments, "id": call.id}
                for call in self.script[turn]
            ]
            reply = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def agent_of(model: ScriptedModel, tools: Sequence[BaseTool], saver: Any) -> Any:
    return create_agent(model, tools, checkpointer=saver)


def graph_of(model: ScriptedModel, tools: Sequence[BaseTool], saver: Any) -> Any:
    """Return a graph of one's own that sends each call to a task of its own."""

    def reply(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def sent(state: MessagesState) -> Any:
        made: Any = state["messages"][-1]
        return [Send("tools", [call]) for call in made.tool_calls] or "__end__"

    graph = StateGraph(MessagesState)
    graph.add_node("model", reply)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", sent)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


class LangChainAgent(FrameworkAgent):
    """Agents that keep their checkpoints in a file; the file is what goes elsewhere."""

    def __init__(self, make: Callable[..., Any] = agent_of) -> None:
        self._make = make

    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        return foreign_tools(functions)

    async def run(
        self, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        return await self._run(tools, script, functions, GO)

    async def run_within(
        self, seconds: float, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        return await self._run(tools, script, functions, GO, seconds=seconds)

    async def resume(
        self,
        tools: ExecutorHandle,
        script: Script,
        state: str,
        answers: Mapping[str, ApprovalAnswer],
        functions: Functions = None,
    ) -> AgentRun:
        kept = json.loads(state)
        given = {
            id_: answered(asked, answers[asked["call_id"]]) for id_, asked in kept["asked"].items()
        }
        checkpoints = base64.b64decode(kept["checkpoints"])
        return await self._run(tools, script, functions, Command(resume=given), checkpoints)

    async def _run(
        self,
        tools: ExecutorHandle,
        script: Script,
        functions: Functions,
        given: Any,
        checkpoints: bytes = b"",
        *,
        seconds: float | None = None,
    ) -> AgentRun:
        own = toolset(tools) if functions is None else governed(functions, tools)
        with tempfile.TemporaryDirectory() as folder:
            file = _written(Path(folder, "checkpoints.db"), checkpoints)
            async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
                agent = self._make(ScriptedModel(script=script), own, saver)
                agent.step_timeout = seconds
                ended = await agent.ainvoke(given, THREAD)
            return _run_of(ended, file)


def _written(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def answered(asked: Mapping[str, Any], answer: ApprovalAnswer) -> dict[str, Any]:
    said = {"answer": answer.answer.value, "reason": answer.reason}
    edited = {} if answer.arguments is None else {"arguments": answer.arguments}
    return {**asked, **said, **edited}


def read_in(messages: Sequence[BaseMessage]) -> dict[str, ModelRead]:
    return {
        message.tool_call_id: ModelRead(str(message.text), message.status == "error")
        for message in messages
        if isinstance(message, ToolMessage)
    }


def _run_of(ended: dict[str, Any], file: Path) -> AgentRun:
    read = read_in(ended["messages"])
    asked = {each.id: each.value for each in ended.get("__interrupt__", ())}
    if not asked:
        return AgentRun(read, str(ended["messages"][-1].text))
    kept = {"checkpoints": base64.b64encode(file.read_bytes()).decode(), "asked": asked}
    questions = {value["call_id"]: value for value in asked.values()}
    return AgentRun(read, None, json.dumps(kept), questions)


class TestLangChain(FrameworkAdapterContract):
    @pytest.fixture
    def agent(self) -> FrameworkAgent:
        return LangChainAgent()


class TestLangGraph(FrameworkAdapterContract):
    @pytest.fixture
    def agent(self) -> FrameworkAgent:
        return LangChainAgent(graph_of)


AGENT, SUITE = LangChainAgent, TestLangChain
