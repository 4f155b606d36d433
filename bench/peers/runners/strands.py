"""Strands: a tool called through the agent, and the executor that the agent's loop uses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from by_hand import checked_by_hand
from contestant import Awaiting, Calling, Contestant, Offer, Way
from strands import Agent, tool
from strands.models import Model
from strands.tools.executors._executor import ToolExecutor


class _Mute(Model):
    """No model answers here."""

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any: ...

    def stream(self, *_: Any, **__: Any) -> Any: ...


def _handler(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    # Nested models reach a handler as dictionaries, and results are written with `str`.
    return checked_by_hand(function) if name == "create_order" else function


def _agent(offer: Offer) -> Agent:
    tools = [tool(name=name)(_handler(name, function)) for name, function in offer.tools.items()]
    return Agent(model=_Mute(), tools=tools, callback_handler=None)


def _text(result: Any) -> str:
    return str(result["content"][0]["text"])


@contextmanager
def _directly(offer: Offer) -> Iterator[Calling]:
    agent = _agent(offer)
    yield lambda name, arguments: _text(getattr(agent.tool, name)(**json.loads(arguments)))


@asynccontextmanager
async def _as_the_loop(offer: Offer) -> AsyncIterator[Awaiting]:
    agent = _agent(offer)

    async def call(name: str, arguments: str) -> str:
        asked = {"toolUseId": "1", "name": name, "input": json.loads(arguments)}
        results: list[Any] = []
        async for _ in ToolExecutor._stream(agent, asked, results, {}):
            pass
        return _text(results[0])

    yield call


INCLUDES = (
    "lookup, validation, hooks, middleware, events; nested models are validated by the handler"
)
CONTESTANT = Contestant(
    distributions=("strands-agents",),
    ways=(
        Way("`ToolExecutor._stream`, as the agent's loop does", INCLUDES, _as_the_loop),
        Way(
            "`agent.tool.NAME()`",
            f"{INCLUDES}, a thread with a loop of its own, a record in the agent's messages",
            _directly,
            keeps=True,
        ),
    ),
)
