"""llm: our tools for its models, and its tools behind our stages.

`llm -T Toolstile` offers the tools of the configured host; see `toolstile_cli.llm_toolbox`.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from types import MethodType
from typing import Any, Final

from toolstile_hookspecs import (
    DefinitionError,
    ExecutorHandle,
    ForeignCall,
    ForeignTool,
    Outcome,
    Status,
    ToolCall,
    VisibilityExpansionRequired,
)
from toolstile_plugins.adapters import shared
from toolstile_plugins.adapters.shared import answer, importing
from toolstile_plugins.dialects.parse import opened

with importing("llm"):
    import llm
    from llm import PauseChain, ServerSideTool
    from llm.models import ToolDef

__all__ = ("CallFailed", "CallWaits", "answer", "foreign_tools", "governed", "toolset")

_Implementation = Callable[..., Any]
_PAUSES: Final = (PauseChain,)


class CallFailed(Exception):
    """A call was refused or rolled back; the model reads the text as an error."""


class CallWaits(PauseChain):
    """A call waits for a person, and its chain with it.

    `tool_call` is the call, `tool_results` has the ended ones; llm sets both. After the answer, a
    chain whose `messages=` end in the call continues with it.

    Args:
        text: The text of the outcome.
        question: The question, with a diff or ticket if the call has one.
    """

    def __init__(self, text: str, question: Mapping[str, str]) -> None:
        super().__init__(text)
        self.question = question


def toolset(
    tools: ExecutorHandle, *, prefix: str = "", pauses: bool = True, side_by_side: bool = False
) -> list[ToolDef]:
    """Return the tools of an executor: `model.chain(text, tools=toolset(tools))`.

    Args:
        tools: The executor, whose tools are the ones that can be called now.
        prefix: Stands before each name.
        pauses: Whether a call that a person must approve raises `CallWaits`; else the model reads
            that it waits.
        side_by_side: Whether the calls of a turn run side by side; for async models only.
    """
    calls = _Calls(tools, pauses=pauses)
    return [
        llm.Tool(
            prefix + shown.name,
            shown.description,
            dict(shown.parameters),
            _offered(calls, shown.name, is_async=side_by_side),
        )
        for shown in shared.offered(tools)
    ]


def foreign_tools(theirs: Iterable[ToolDef]) -> list[ForeignTool]:
    """Return tools, toolboxes and functions for `host.executor(tools=...)`, by their names."""
    return [
        ForeignTool(tool.name, tool.description or tool.name, _schema(tool))
        for tool in _tools_of(theirs)
    ]


def governed(theirs: Iterable[ToolDef], tools: ExecutorHandle) -> list[ToolDef]:
    """Return tools each of whose calls passes the stages of an executor.

    Args:
        theirs: Tools, toolboxes and functions.
        tools: An executor that knows them: `host.executor(tools=foreign_tools(theirs))`.

    Raises:
        DefinitionError: For a tool that the executor does not know, or that its provider runs.
    """
    calls = _Calls(tools)
    found = _tools_of(theirs)
    for tool in found:
        shared.foreign_tool(tools, tool.name, "foreign_tools(theirs)")
    return [replace(tool, implementation=_governed(calls, tool)) for tool in found]


# --- Tools


def _tools_of(theirs: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    function: Callable[[Any], llm.Tool] = getattr(llm.Tool, "function")  # noqa: B009 - untyped
    for each in theirs:
        if isinstance(each, llm.Toolbox):
            found += each.tools()
        elif isinstance(each, llm.Tool | ServerSideTool):
            found.append(each)
        else:
            found.append(function(each))
    for tool in found:
        if tool.implementation is None:
            raise DefinitionError(
                f"{tool.name} runs at its provider, so its calls cannot pass the stages. Give it "
                "to the model beside the governed tools, as tools=[*governed(...), tool]."
            )
    return found


def _schema(tool: Any) -> dict[str, Any]:
    """Return the schema of a tool's arguments, closed if its function accepts no others."""
    parameters = inspect.signature(tool.implementation).parameters
    is_open = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return tool.input_schema if is_open else {"additionalProperties": False, **tool.input_schema}


def _offered(calls: _Calls, name: str, *, is_async: bool) -> _Implementation:
    def now(theirs: llm.ToolCall) -> Any:
        try:
            return calls.now(_call(name, theirs)).text
        except VisibilityExpansionRequired as request:
            return opened(calls.tools, request)

    async def later(theirs: llm.ToolCall) -> Any:
        try:
            return (await calls.later(_call(name, theirs))).text
        except VisibilityExpansionRequired as request:
            return opened(calls.tools, request)

    return _implementation(now, later, is_async=is_async)


def _governed(calls: _Calls, tool: Any) -> _Implementation:
    theirs: _Implementation = tool.implementation
    takes_call = "llm_tool_call" in inspect.signature(theirs).parameters

    def bound(call: llm.ToolCall) -> Callable[[dict[str, Any]], Any]:
        more = {"llm_tool_call": call} if takes_call else {}
        return lambda arguments: theirs(**arguments, **more)

    def now(call: llm.ToolCall) -> Any:
        run = shared.ForeignRun(_PAUSES)
        with run.steering():
            return run.given(calls.now(_call(tool.name, call), run.using_sync(bound(call))))

    async def later(call: llm.ToolCall) -> Any:
        run, start = shared.ForeignRun(_PAUSES), bound(call)

        async def within(arguments: dict[str, Any]) -> Any:
            if inspect.iscoroutinefunction(theirs):
                return await start(arguments)
            return await asyncio.to_thread(start, arguments)

        with run.steering():
            return run.given(await calls.later(_call(tool.name, call), run.using(within)))

    is_async = inspect.iscoroutinefunction(theirs)
    made = _implementation(now, later, is_async=is_async)
    # To prepare and to log the toolbox of a tool, llm looks at the object that it is bound to.
    owner = getattr(theirs, "__self__", None)
    return made if owner is None else MethodType(made, owner)


def _implementation(
    now: Callable[[llm.ToolCall], Any],
    later: Callable[[llm.ToolCall], Awaitable[Any]],
    *,
    is_async: bool,
) -> _Implementation:
    """Return a coroutine function, or a function for both kinds of models."""

    async def run_async(*_: object, llm_tool_call: llm.ToolCall, **__: object) -> Any:
        return await later(llm_tool_call)

    def run(*_: object, llm_tool_call: llm.ToolCall, **__: object) -> Any:
        # An async model awaits the result; a sync one would show a coroutine to the model.
        caller = sys._getframe(1).f_code  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        is_awaited = caller.co_flags & inspect.CO_COROUTINE
        return later(llm_tool_call) if is_awaited else now(llm_tool_call)

    return run_async if is_async else run


# --- Calls


def _call(name: str, theirs: Any) -> ToolCall:
    return ToolCall(name, theirs.arguments, provider_id=theirs.tool_call_id or "")


class _Calls:
    """Dispatches the calls of a model, each by itself: llm does not show a tool other calls."""

    def __init__(self, tools: ExecutorHandle, *, pauses: bool = True) -> None:
        self.tools = tools
        self._pauses = pauses

    def now(self, call: ToolCall, using: ForeignCall | None = None) -> Outcome:
        """Dispatch a call, or resume an answered one."""
        return self._seen(shared.dispatch(self.tools, call, using), call)

    async def later(self, call: ToolCall, using: ForeignCall | None = None) -> Outcome:
        return self._seen(await shared.adispatch(self.tools, call, using), call)

    def _seen(self, outcome: Outcome, call: ToolCall) -> Outcome:
        is_pending = outcome.status is Status.PENDING
        if is_pending and self._pauses:
            raise CallWaits(outcome.text, shared.waits(self.tools, outcome, call).question)
        if outcome.is_error and not is_pending:
            raise CallFailed(outcome.text)
        return outcome
