"""llm: the calls of a response, which goes to the functions as they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import llm
from by_hand import checked_by_hand
from contestant import Awaiting, Calling, Contestant, Offer, Way


class _Model(llm.Model):
    model_id = "bench"
    supports_tools = True

    def execute(self, *_: Any, **__: Any) -> Iterator[str]:
        yield ""


class _AsyncModel(llm.AsyncModel):
    model_id = "bench"
    supports_tools = True

    async def execute(self, *_: Any, **__: Any) -> AsyncIterator[str]:
        yield ""


def _handler(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    # Nothing is validated, and what is no text is written as its repr.
    return checked_by_hand(function) if name == "create_order" else function


def _tools(offer: Offer) -> list[llm.Tool]:
    return [
        llm.Tool.function(_handler(name, function), name=name)
        for name, function in offer.tools.items()
    ]


def _asked(name: str, arguments: str) -> list[llm.ToolCall]:
    return [llm.ToolCall(name=name, arguments=json.loads(arguments), tool_call_id="1")]


@contextmanager
def _called(offer: Offer) -> Iterator[Calling]:
    model = _Model()
    response = llm.Response(llm.Prompt("", model, tools=_tools(offer)), model, stream=False)
    yield (
        lambda name, arguments: (
            response.execute_tool_calls(tool_calls_list=_asked(name, arguments))[0].output
        )
    )


@asynccontextmanager
async def _awaited(offer: Offer) -> AsyncIterator[Awaiting]:
    model = _AsyncModel()
    response = llm.AsyncResponse(llm.Prompt("", model, tools=_tools(offer)), model, stream=False)

    async def call(name: str, arguments: str) -> str:
        asked = _asked(name, arguments)
        return str((await response.execute_tool_calls(tool_calls_list=asked))[0].output)

    yield call


INCLUDES = "lookup, errors as text; nothing is validated: `create_order` does it itself"
CONTESTANT = Contestant(
    distributions=("llm",),
    ways=(
        Way("`Response.execute_tool_calls`", INCLUDES, _called, handlers=("sync",)),
        Way("`AsyncResponse.execute_tool_calls`", INCLUDES, _awaited),
    ),
)
