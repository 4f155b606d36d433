"""LangGraph: its node of tools in a graph of one node, without and with a checkpointer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count

from contestant import Awaiting, Contestant, Offer, Way
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode


def _message(name: str, arguments: str, number: int) -> AIMessage:
    asked = {"name": name, "args": json.loads(arguments), "id": str(number), "type": "tool_call"}
    return AIMessage("", id=f"asked-{number}", tool_calls=[asked])


def _tools(offer: Offer) -> list[Callable[..., object]]:
    for name, function in offer.tools.items():
        function.__name__ = name
    return list(offer.tools.values())


def _graph(*, kept: bool) -> Callable[[Offer], AbstractAsyncContextManager[Awaiting]]:
    @asynccontextmanager
    async def opened(offer: Offer) -> AsyncIterator[Awaiting]:
        builder = StateGraph(MessagesState)
        builder.add_node("tools", ToolNode(_tools(offer)), timeout=offer.timeout)
        builder.add_edge(START, "tools")
        graph = builder.compile(checkpointer=InMemorySaver() if kept else None)
        config = {"configurable": {"thread_id": "1"}}
        numbers = count()

        async def call(name: str, arguments: str) -> str:
            message = _message(name, arguments, next(numbers))
            state = await graph.ainvoke({"messages": [message]}, config)
            return str(state["messages"][-1].content)

        yield call

    return opened


INCLUDES = "validation, callbacks, injected state, messages, the graph's steps"
CONTESTANT = Contestant(
    distributions=("langgraph", "langgraph-prebuilt"),
    ways=(
        Way("`ToolNode` in a graph", INCLUDES, _graph(kept=False), times_out=True),
        Way(
            "`ToolNode` in a graph with `InMemorySaver`",
            f"{INCLUDES}, checkpoints of one thread",
            _graph(kept=True),
            keeps=True,
            times_out=True,
        ),
    ),
)
