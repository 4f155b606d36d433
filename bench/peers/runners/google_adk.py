"""Google ADK: a function tool by itself, and the calls of an event, as its flows handle them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contestant import Awaiting, Contestant, Offer, Way
from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event
from google.adk.flows.llm_flows.functions import handle_function_calls_async
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types


async def _context() -> InvocationContext:
    sessions = InMemorySessionService()
    return InvocationContext(
        session_service=sessions,
        session=await sessions.create_session(app_name="bench", user_id="bench"),
        invocation_id="1",
        agent=LlmAgent(name="bench", model="none"),
    )


def _tools(offer: Offer) -> dict[str, FunctionTool]:
    tools = {name: FunctionTool(function) for name, function in offer.tools.items()}
    for name, tool in tools.items():
        tool.name = name
    return tools


@asynccontextmanager
async def _by_itself(offer: Offer) -> AsyncIterator[Awaiting]:
    tools, context = _tools(offer), await _context()

    async def call(name: str, arguments: str) -> str:
        return str(
            await tools[name].run_async(
                args=json.loads(arguments), tool_context=ToolContext(context)
            )
        )

    yield call


@asynccontextmanager
async def _in_a_flow(offer: Offer) -> AsyncIterator[Awaiting]:
    tools, context = _tools(offer), await _context()

    async def call(name: str, arguments: str) -> str:
        asked = types.FunctionCall(id="1", name=name, args=json.loads(arguments))
        content = types.Content(role="model", parts=[types.Part(function_call=asked)])
        event = Event(author="bench", invocation_id="1", content=content)
        answer = await handle_function_calls_async(context, event, tools)
        assert answer is not None
        return str(answer.get_function_responses()[0].response)

    yield call


CONTESTANT = Contestant(
    distributions=("google-adk",),
    ways=(
        Way(
            "`handle_function_calls_async`, as its flows do",
            "lookup, params that are models converted, callbacks, plugins, confirmation, an event",
            _in_a_flow,
        ),
        Way(
            "`FunctionTool.run_async`",
            "params that are models converted, confirmation",
            _by_itself,
        ),
    ),
)
