"""pydantic-ai: our tools as a toolset of its agents, and its toolsets behind our stages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any, Final, cast

from pydantic import ValidationError

from toolstile_hookspecs import (
    HOST_TIMEOUT,
    ApprovalAnswer,
    Deadline,
    ExecutorHandle,
    ForeignCall,
    ForeignTool,
    Outcome,
    Status,
    ToolCall,
    VisibilityExpansionRequired,
)
from toolstile_plugins.adapters import shared
from toolstile_plugins.adapters.turns import Turns, id_in
from toolstile_plugins.dialects.parse import opened

with shared.importing("pydantic-ai"):
    from pydantic_ai import (
        AbstractToolset,
        ApprovalRequired,
        CallDeferred,
        FunctionToolset,
        ModelRetry,
        RunContext,
        ToolDefinition,
        ToolFailed,
        WrapperToolset,
    )
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.toolsets.abstract import ToolsetTool

_TEXT: Final = "toolstile_text"
"""The key of arguments that are no JSON object, as the model wrote them."""


class _AsGiven:
    """Lets all arguments pass: our stages check them, and name every fault at once."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:  # noqa: A002 - pydantic's word
        try:
            found: Any = json.loads(input)
        except ValueError:
            found = None
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {_TEXT: input}

    def validate_python(self, input: Any, **_: Any) -> Any:  # noqa: A002 - pydantic's word
        return input


def toolset(tools: ExecutorHandle, *, id: str = "toolstile") -> AbstractToolset[Any]:  # noqa: A002 - pydantic-ai's word
    """Return the tools of an executor as a toolset: `Agent(model, toolsets=[toolset(tools)])`.

    A call that a person must approve is deferred with `ApprovalRequired`, so that the run ends
    with `DeferredToolRequests`. Its metadata has the token: return it as
    `DeferredToolResults(approvals=..., metadata=requests.metadata)`.

    Args:
        tools: The executor.
        id: The id of the toolset, unique within the agent.
    """
    return OfferedToolset(_Calls(tools), id)


def foreign_tools(
    theirs: FunctionToolset[Any] | Sequence[FunctionToolset[Any]],
) -> list[ForeignTool]:
    """Return the tools of toolsets for `host.executor(tools=...)`, under their own names.

    Their timeouts apply to the calls.

    Args:
        theirs: Toolsets of functions; the tools of other toolsets are known only within a run.
    """
    toolsets = [theirs] if isinstance(theirs, FunctionToolset) else theirs
    return [
        ForeignTool(
            (made := tool.tool_def).name,
            made.description or made.name,
            made.parameters_json_schema,
            timeout=tool.timeout or each.timeout or HOST_TIMEOUT,
        )
        for each in toolsets
        for tool in each.tools.values()
    ]


def governed(theirs: AbstractToolset[Any], tools: ExecutorHandle) -> AbstractToolset[Any]:
    """Return a toolset of theirs each of whose calls passes the stages of an executor.

    Args:
        theirs: The toolset.
        tools: An executor that knows its tools: `host.executor(tools=foreign_tools(theirs))`.
    """
    return GovernedToolset(theirs, _Calls(tools))


@dataclass
class OfferedToolset(AbstractToolset[Any]):
    """The tools of an executor."""

    calls: _Calls
    own_id: str

    @property
    def id(self) -> str:
        return self.own_id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        del ctx
        return {
            shown.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=shown.name,
                    description=shown.description,
                    parameters_json_schema=dict(shown.parameters),
                ),
                max_retries=0,
                args_validator=_AsGiven(),
            )
            for shown in shared.offered(self.calls.tools)
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        del tool
        try:
            return _read(await self.calls.dispatch(name, tool_args, ctx))
        except VisibilityExpansionRequired as request:
            return opened(self.calls.tools, request)


@dataclass
class GovernedToolset(WrapperToolset[Any]):
    """A toolset of theirs, with every call behind our stages."""

    calls: _Calls

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return their tools; their arguments are validated within our call."""
        found = await super().get_tools(ctx)
        for name in found:
            shared.foreign_tool(self.calls.tools, name, "foreign_tools(toolset)")
        return {
            name: _Governed(
                toolset=tool.toolset,
                tool_def=tool.tool_def,
                max_retries=tool.max_retries,
                args_validator=_AsGiven(),
                theirs=tool,
            )
            for name, tool in found.items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        run = shared.ForeignRun((ApprovalRequired, CallDeferred), (ModelRetry, ToolFailed))
        theirs = tool.theirs if isinstance(tool, _Governed) else tool

        async def call(arguments: dict[str, Any]) -> Any:
            given, context = json.dumps(arguments), ctx.validation_context
            try:
                valid: Any = theirs.args_validator.validate_json(given, context=context)
            except ValidationError as error:
                raise ModelRetry(str(error)) from error
            if theirs.args_validator_func is not None:
                ended = theirs.args_validator_func(ctx, **valid)
                if isawaitable(ended):
                    await ended
            return await self.wrapped.call_tool(name, valid, ctx, theirs)

        with run.steering():
            outcome = await self.calls.dispatch(name, tool_args, ctx, run.using(call))
        run.raise_own(outcome)
        return run.given(outcome) if outcome.success else _read(outcome)


@dataclass(kw_only=True)
class _Governed(ToolsetTool[Any]):
    theirs: ToolsetTool[Any]


class _Calls:
    def __init__(self, tools: ExecutorHandle) -> None:
        self.tools = tools
        self.turns = Turns(tools)

    async def dispatch(
        self,
        name: str,
        arguments: dict[str, Any],
        ctx: RunContext[Any],
        using: ForeignCall | None = None,
    ) -> Outcome:
        """Dispatch a call, or resume an approved one; raise `ApprovalRequired` if it waits."""
        replies = [each for each in ctx.messages if isinstance(each, ModelResponse)]
        parts = replies[-1].parts if replies else ()
        made = [part for part in parts if isinstance(part, ToolCallPart)]
        ids = [part.tool_call_id for part in made]
        seconds, id_ = ctx.remaining_time(), ctx.tool_call_id or ""
        call = ToolCall(
            name,
            arguments.get(_TEXT, arguments),
            deadline=None if seconds is None else Deadline.after(seconds),
            provider_id=id_,
        )
        # The run and the number of a reply in its run identify the reply.
        if id_ and replies and (run := replies[-1].run_id):
            reply = f"{run}/{sum(each.run_id == run for each in replies)}"
            call = replace(call, id=id_in(reply, id_, ids, arguments))
        metadata = cast("dict[str, str] | None", ctx.tool_call_metadata)
        token = metadata.get(shared.TOKEN) if metadata and ctx.tool_call_approved else None
        if token is None:  # our stages did not ask a person
            outcome = await self.turns.dispatch(call, (ctx.run_id, ctx.run_step), ids, using)
        else:
            asked = [part.args_as_dict() for part in made if part.tool_call_id == call.provider_id]
            answer = ApprovalAnswer.approve()
            if asked and asked[0] != arguments:  # the person has edited them
                call, answer = replace(call, arguments=asked[0]), ApprovalAnswer.edit(arguments)
            outcome = await self.tools.aresume(call, token, answer, using=using)
        if outcome.status is Status.PENDING:
            raise ApprovalRequired(metadata=shared.question(outcome))
        return outcome


def _read(outcome: Outcome) -> str:
    if outcome.is_error:
        raise ToolFailed(outcome.text)
    return outcome.text
