"""LangChain: a structured tool by itself, given the call of a model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from inspect import iscoroutinefunction

from contestant import Awaiting, Calling, Contestant, Offer, Way
from langchain_core.tools import StructuredTool


def _tools(offer: Offer) -> dict[str, StructuredTool]:
    return {
        name: StructuredTool.from_function(coroutine=function, name=name)
        if iscoroutinefunction(function)
        else StructuredTool.from_function(function, name=name)
        for name, function in offer.tools.items()
    }


def _call(name: str, arguments: str) -> dict[str, object]:
    return {"name": name, "args": json.loads(arguments), "id": "1", "type": "tool_call"}


@asynccontextmanager
async def _awaited(offer: Offer) -> AsyncIterator[Awaiting]:
    tools = _tools(offer)

    async def call(name: str, arguments: str) -> str:
        return str((await tools[name].ainvoke(_call(name, arguments))).content)

    yield call


@contextmanager
def _called(offer: Offer) -> Iterator[Calling]:
    tools = _tools(offer)
    yield lambda name, arguments: tools[name].invoke(_call(name, arguments)).content


INCLUDES = "validation, callbacks, a message with the result"
CONTESTANT = Contestant(
    distributions=("langchain", "langchain-core"),
    ways=(
        Way("`StructuredTool.ainvoke`", INCLUDES, _awaited),
        Way("`StructuredTool.invoke`", INCLUDES, _called, handlers=("sync",)),
    ),
)
