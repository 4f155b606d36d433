"""Sub-agents of other frameworks, each with the tools of a child of one executor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent as OpenAIAgent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic_ai import Agent as PydanticAgent, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from toolstile import Executor, Host
from toolstile_hookspecs import ToolInvoked, tool
from toolstile_plugins.adapters import langchain, openai_agents, pydantic_ai


@tool(category="read")
def balance(customer: str) -> str:
    """Tell the balance of a customer."""
    return f"{customer} owes 5."


@tool(category="side_effect")
def refund(customer: str) -> str:
    """Pay back."""
    return f"{customer} has 5 back."


@pytest.fixture
def tools() -> Iterator[Executor]:
    with Host(discover=False, tools=[balance, refund]) as host, host.executor() as executor:
        yield executor


def made(tools: Executor) -> list[tuple[str, str, bool]]:
    events = tools.session[ToolInvoked].all()
    return [(each.agent, each.call.name, each.success) for each in events]


BOTH = [("balance", {"customer": "ada"}), ("refund", {"customer": "ada"})]


def openai_model(*turns: Any) -> ScriptedModel:
    set_tracing_disabled(True)
    written = [
        [function_call(name, given, call_id=f"{number}-{name}") for name, given in turn]
        if isinstance(turn, list)
        else [assistant_message(turn)]
        for number, turn in enumerate(turns)
    ]
    return ScriptedModel(written)


@pytest.mark.parametrize("way", ["handoff", "tool"])
def test_openai_agents(tools: Executor, way: str) -> None:
    with tools.child("billing", tools=["balance"]) as child:
        billing = OpenAIAgent(
            "billing",
            model=openai_model([BOTH[0]], "ada owes 5."),
            tools=openai_agents.toolset(child),
            handoff_description="Knows balances.",
        )
        started = ("transfer_to_billing", {}) if way == "handoff" else ("ask", {"input": "ada?"})
        asked = billing.as_tool("ask", "Ask about balances.")
        desk = OpenAIAgent(
            "desk",
            model=openai_model([BOTH[1]], [started], "Done."),
            tools=[*openai_agents.toolset(tools), *([asked] if way == "tool" else [])],
            handoffs=[billing] if way == "handoff" else [],
        )
        ended = asyncio.run(Runner.run(desk, "What does ada owe?"))
        assert ended.final_output == ("ada owes 5." if way == "handoff" else "Done.")
        # The sub-agent is not shown the other tool.
        assert "refund" not in [each.name for each in billing.tools]
    assert made(tools) == [("main", "refund", True), ("main/billing", "balance", True)]


class Scripted(BaseChatModel):
    """A model that makes the given turns."""

    turns: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        turn = self.turns.pop(0)
        said = AIMessage(turn if isinstance(turn, str) else "")
        if isinstance(turn, list):
            said.tool_calls = [
                {"id": f"{len(messages)}-{name}", "name": name, "args": given, "type": "tool_call"}
                for name, given in turn
            ]
        return ChatResult(generations=[ChatGeneration(message=said)])


def test_a_subgraph_of_langgraph(tools: Executor) -> None:
    with tools.child("billing", tools=["balance"]) as child:
        desk = create_agent(
            Scripted(turns=[[BOTH[1]], "Over to billing."]), langchain.toolset(tools)
        )
        billing = create_agent(Scripted(turns=[[BOTH[0]], "Done."]), langchain.toolset(child))
        graph = StateGraph(MessagesState)
        graph.add_node("desk", desk)
        graph.add_node("billing", billing)
        graph.add_edge(START, "desk")
        graph.add_edge("desk", "billing")
        graph.add_edge("billing", END)
        given = {"messages": [HumanMessage("What does ada owe?")]}
        ended: Any = asyncio.run(graph.compile().ainvoke(given))  # type: ignore[arg-type]
    assert ended["messages"][-1].text == "Done."
    assert made(tools) == [("main", "refund", True), ("main/billing", "balance", True)]


def pydantic_model(*turns: Any) -> FunctionModel:
    left = list(turns)

    def reply(*_: Any) -> ModelResponse:
        turn = left.pop(0)
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(
            parts=[
                ToolCallPart(name, given, tool_call_id=f"{len(left)}-{name}")
                for name, given in turn
            ]
        )

    return FunctionModel(reply)


def test_delegation_of_pydantic_ai(tools: Executor) -> None:
    with tools.child("billing", tools=["balance"]) as child:
        billing = PydanticAgent(
            pydantic_model([BOTH[0]], "ada owes 5."), toolsets=[pydantic_ai.toolset(child)]
        )
        desk = PydanticAgent(
            pydantic_model([BOTH[1]], [("ask", {"question": "ada?"})], "Done."),
            toolsets=[pydantic_ai.toolset(tools)],
        )

        @desk.tool
        async def ask(context: RunContext[None], question: str) -> str:
            """Ask about balances."""
            return (await billing.run(question, usage=context.usage)).output

        assert asyncio.run(desk.run("What does ada owe?")).output == "Done."
    assert made(tools) == [("main", "refund", True), ("main/billing", "balance", True)]
