"""pydantic-ai: the toolset by itself, and the manager through which an agent's run calls tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contestant import Awaiting, Contestant, Offer, Way
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.usage import RunUsage


def _context() -> RunContext[None]:
    return RunContext(deps=None, model=TestModel(), usage=RunUsage(), run_step=1)


def _toolset(offer: Offer) -> FunctionToolset[None]:
    # As an agent does by default: the model is told of its first fault.
    toolset = FunctionToolset[None](timeout=offer.timeout, max_retries=1)
    for name, function in offer.tools.items():
        toolset.add_function(function, name=name)
    return toolset


def _text(name: str, content: object) -> str:
    return ToolReturnPart(name, content, tool_call_id="1").model_response_str()


@asynccontextmanager
async def _managed(offer: Offer) -> AsyncIterator[Awaiting]:
    manager = await ToolManager(_toolset(offer)).for_run_step(_context())

    async def call(name: str, arguments: str) -> str:
        return _text(name, await manager.handle_call(ToolCallPart(name, arguments, "1")))

    yield call


@asynccontextmanager
async def _bare(offer: Offer) -> AsyncIterator[Awaiting]:
    toolset, context = _toolset(offer), _context()
    tools = await toolset.get_tools(context)

    async def call(name: str, arguments: str) -> str:
        tool = tools[name]
        params = tool.args_validator.validate_json(arguments)
        return _text(name, await toolset.call_tool(name, params, context, tool))

    yield call


CONTESTANT = Contestant(
    distributions=("pydantic-ai-slim",),
    ways=(
        Way(
            "`ToolManager.handle_call`",
            "lookup, validation, hooks where there are some, approval and deferral, retries",
            _managed,
            times_out=True,
        ),
        Way("`FunctionToolset.call_tool`", "validation", _bare, times_out=True),
    ),
)
