"""The OpenAI Agents SDK: a function tool, invoked as the run loop does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents import function_tool
from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext
from contestant import Awaiting, Contestant, Offer, Way


@asynccontextmanager
async def _invoked(offer: Offer) -> AsyncIterator[Awaiting]:
    tools = {
        name: function_tool(function, name_override=name, timeout=offer.timeout)
        for name, function in offer.tools.items()
    }

    async def call(name: str, arguments: str) -> str:
        context = ToolContext(None, tool_name=name, tool_call_id="1", tool_arguments=arguments)
        return str(
            await invoke_function_tool(
                function_tool=tools[name], context=context, arguments=arguments
            )
        )

    yield call


CONTESTANT = Contestant(
    distributions=("openai-agents",),
    ways=(
        Way(
            "`invoke_function_tool`",
            "validation, errors as text; guardrails, approval and hooks are in the run loop",
            _invoked,
            times_out=True,
        ),
    ),
)
