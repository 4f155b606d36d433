"""A tool's call out of the agents of other frameworks: bare, through an adapter, and by itself.

Measured is one call of a tool in a task of its own, until the framework has the text for its model.
The function is async, so that nobody needs a thread.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final

from cases_agent import cpu_time_on_loop
from measuring import Block, Case, Effort, Probe, Row, compare, on_top

from toolstile import Executor, Host
from toolstile_hookspecs import ForeignTool, ToolCall, tool as make_tool

GIVEN: Final = {"a": 1, "b": 2}
SCHEMA: Final = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
MOST: Final = 1.25
"""The most that a call through an adapter may cost, in times of one that is dispatched without."""


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


Run = Callable[[], Awaitable[object]]


@contextmanager
def opened(*tools: Any) -> Iterator[Executor]:
    with Host(discover=["dialects"]) as host, host.executor(tools=tools) as made:
        yield made


def probe(name: str, runs: Callable[[], AbstractContextManager[Run]]) -> Probe:
    """Return the probe of an async function that a context manager gives."""

    @contextmanager
    def block() -> Iterator[Block]:
        with runs() as run:

            async def in_task() -> object:
                return await asyncio.ensure_future(run())

            with cpu_time_on_loop(in_task) as timed:
                yield timed

    return Probe(name, block)


@contextmanager
def dispatched() -> Iterator[Run]:
    with opened(make_tool(add)) as tools:

        async def run() -> str:
            return (await tools.adispatch(ToolCall("add", GIVEN, id="c1"))).text

        yield run


@contextmanager
def dispatched_using(bare: Callable[[], AbstractContextManager[Run]]) -> Iterator[Run]:
    """Give a call of a foreign tool that runs the framework's own call, without an adapter."""
    with opened(ForeignTool("add", "Add.", SCHEMA)) as tools, bare() as run_bare:

        async def using(_: dict[str, Any], __: Any) -> str:
            return str(await run_bare())

        async def run() -> str:
            return (await tools.adispatch(ToolCall("add", GIVEN, id="c1"), using=using)).text

        yield run


# --- Claude Agent SDK


def _served() -> Any:
    from claude_agent_sdk import create_sdk_mcp_server, tool

    @tool("add", "Add two integers.", SCHEMA)
    async def add_tool(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(await add(**given))}]}

    return create_sdk_mcp_server("desk", tools=[add_tool])


def _claude(server: str, made: Any, hooks: Any = None) -> Run:
    from claude_agent_sdk import ClaudeAgentOptions
    from claude_code import Session

    options = ClaudeAgentOptions(mcp_servers={server: made}, hooks=hooks)
    return Session(options, server, GIVEN).call


@contextmanager
def claude_bare() -> Iterator[Run]:
    yield _claude("desk", _served())


@contextmanager
def claude_hooked() -> Iterator[Run]:
    """Give the SDK's own call with as many hooks as ours, which do nothing."""
    from claude_agent_sdk import HookMatcher

    async def nothing(*_: object) -> Any:
        return {}

    hooks = {"PreToolUse": [nothing, nothing], "PostToolUse": [nothing]}
    yield _claude(
        "desk", _served(), {event: [HookMatcher(hooks=each)] for event, each in hooks.items()}
    )


@contextmanager
def claude_ours() -> Iterator[Run]:
    from toolstile_plugins.adapters.claude_agent import toolset

    with opened(make_tool(add)) as tools:
        yield _claude("toolstile", toolset(tools))


@contextmanager
def claude_theirs() -> Iterator[Run]:
    from toolstile_plugins.adapters.claude_agent import foreign_tools, governed

    theirs = {"mcp__desk__add": SCHEMA}
    with opened(*foreign_tools(theirs)) as tools:
        yield _claude("desk", _served(), governed(theirs, tools))


# --- pydantic-ai


def _pydantic_ai(toolset: Any) -> Run:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    said = ModelResponse([ToolCallPart("add", GIVEN, "c1")])
    context = RunContext(
        deps=None, model=TestModel(), usage=RunUsage(), messages=[said], tool_call_id="c1"
    )
    found = asyncio.run(toolset.get_tools(context))["add"]
    return lambda: toolset.call_tool("add", GIVEN, context, found)


@contextmanager
def pydantic_ai_bare() -> Iterator[Run]:
    from pydantic_ai import FunctionToolset

    yield _pydantic_ai(FunctionToolset([add]))


@contextmanager
def pydantic_ai_ours() -> Iterator[Run]:
    from toolstile_plugins.adapters.pydantic_ai import toolset

    with opened(make_tool(add)) as tools:
        yield _pydantic_ai(toolset(tools))


@contextmanager
def pydantic_ai_theirs() -> Iterator[Run]:
    from pydantic_ai import FunctionToolset

    from toolstile_plugins.adapters.pydantic_ai import foreign_tools, governed

    theirs = FunctionToolset[Any]([add])
    with opened(*foreign_tools(theirs)) as tools:
        yield _pydantic_ai(governed(theirs, tools))


# --- LangChain


def _langchain(tools: list[Any]) -> Run:
    call = {"name": "add", "args": GIVEN, "id": "c1", "type": "tool_call"}
    return lambda: tools[0].ainvoke(call)


@contextmanager
def langchain_bare() -> Iterator[Run]:
    from langchain_core.tools import tool

    yield _langchain([tool(add)])


@contextmanager
def langchain_ours() -> Iterator[Run]:
    from toolstile_plugins.adapters.langchain import toolset

    with opened(make_tool(add)) as tools:
        yield _langchain(toolset(tools))


@contextmanager
def langchain_theirs() -> Iterator[Run]:
    from toolstile_plugins.adapters.langchain import foreign_tools, governed

    with opened(*foreign_tools([add])) as tools:
        yield _langchain(governed([add], tools))


# --- OpenAI Agents SDK


def _openai_agents(tools: list[Any]) -> Run:
    from agents.tool_context import ToolContext

    text = json.dumps(GIVEN)
    add_tool = next(tool for tool in tools if tool.name == "add")

    async def run() -> object:
        context = ToolContext(None, tool_name="add", tool_call_id="c1", tool_arguments=text)
        if add_tool.needs_approval:
            assert not await add_tool.needs_approval(context, GIVEN, "c1")
        return await add_tool.on_invoke_tool(context, text)

    return run


@contextmanager
def openai_agents_bare() -> Iterator[Run]:
    from agents import function_tool

    yield _openai_agents([function_tool(add)])


@contextmanager
def openai_agents_ours() -> Iterator[Run]:
    from toolstile_plugins.adapters.openai_agents import toolset

    with opened(make_tool(add)) as tools:
        yield _openai_agents(toolset(tools))


@contextmanager
def openai_agents_theirs() -> Iterator[Run]:
    from agents import function_tool

    from toolstile_plugins.adapters.openai_agents import foreign_tools, governed

    theirs = [function_tool(add)]
    with opened(*foreign_tools(theirs)) as tools:
        yield _openai_agents(governed(theirs, tools))


# --- llm


def _llm(tools: list[Any]) -> Run:
    import llm

    class Caller(llm.AsyncModel):
        model_id = "bench"
        supports_tools = True

        async def execute(self, *_: Any, **__: Any) -> Any:
            yield ""

    call = llm.ToolCall("add", GIVEN, tool_call_id="c1")
    prompt = llm.Prompt("", Caller(), tools=tools)
    response = llm.AsyncResponse(prompt, prompt.model, stream=False)
    response._done = True
    response.add_tool_call(call)
    return response.execute_tool_calls


@contextmanager
def llm_bare() -> Iterator[Run]:
    import llm

    yield _llm([llm.Tool.function(add)])


@contextmanager
def llm_ours() -> Iterator[Run]:
    from toolstile_plugins.adapters.llm import toolset

    with opened(make_tool(add)) as tools:
        yield _llm(toolset(tools, side_by_side=True))


@contextmanager
def llm_theirs() -> Iterator[Run]:
    from toolstile_plugins.adapters.llm import foreign_tools, governed

    with opened(*foreign_tools([add])) as tools:
        yield _llm(governed([add], tools))


ADAPTERS: Final = {
    "Claude Agent SDK": (claude_bare, claude_ours, claude_theirs),
    "LangChain": (langchain_bare, langchain_ours, langchain_theirs),
    "llm": (llm_bare, llm_ours, llm_theirs),
    "OpenAI Agents SDK": (openai_agents_bare, openai_agents_ours, openai_agents_theirs),
    "pydantic-ai": (pydantic_ai_bare, pydantic_ai_ours, pydantic_ai_theirs),
}


def measure_adapters(effort: Effort) -> list[Row]:
    """Measure a call through each adapter beside the same call dispatched without it.

    Our tool is measured on top of the framework's own call, in times of a dispatched one. A tool of
    theirs is measured beside a dispatched call that runs it.
    """
    floor = probe("adispatch: a call of our tool", dispatched)
    cases: list[Case] = []
    for name, (bare, own, foreign) in ADAPTERS.items():
        # Claude Code says of a call what hooks are told; they are the SDK's own way to hear of it.
        run = claude_hooked if bare is claude_bare else bare
        within = probe(f"adispatch: a tool of {name}", partial(dispatched_using, run))
        cases += (
            Case(probe(f"{name}: bare", bare), floor),
            Case(probe(f"{name}: our tool", own), floor),
            Case(probe(f"{name}: its own tool, governed", foreign), within, MOST),
        )
    rows = {row.case: row for row in compare(cases, effort)}
    for name in ADAPTERS:
        added = f"{name}: our tool, on top of bare"
        rows[added] = on_top(added, rows[f"{name}: our tool"], rows[f"{name}: bare"], MOST)
    return list(rows.values())
