"""Inspect: the tool calls of an assistant's message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contestant import Awaiting, Contestant, Offer, Way
from inspect_ai.model import ChatMessageAssistant, execute_tools
from inspect_ai.tool import ToolCall, ToolDef


@asynccontextmanager
async def _executed(offer: Offer) -> AsyncIterator[Awaiting]:
    tools = [
        ToolDef(
            function,
            name=name,
            description=function.__doc__,
            parameters={
                param: f"The {param}." for param in function.__annotations__ if param != "return"
            },
        )
        for name, function in offer.tools.items()
    ]

    async def call(name: str, arguments: str) -> str:
        asked = ToolCall(id="1", function=name, arguments=json.loads(arguments))
        result = await execute_tools([ChatMessageAssistant(content="", tool_calls=[asked])], tools)
        message = result.messages[0]
        return message.text if message.error is None else message.error.message

    yield call


CONTESTANT = Contestant(
    distributions=("inspect-ai",),
    ways=(
        Way(
            "`execute_tools`",
            "lookup, validation against the schema, approval, transcript, truncation",
            _executed,
            handlers=("async",),
            keeps=True,
        ),
    ),
)
