"""OpenAI Agents SDK: our tools in its agents, and its function tools behind our stages.

The SDK asks for approval before it runs a tool, and a run can only wait at this moment. So a call
is dispatched when the SDK asks, and its outcome is kept until the SDK runs the tool. A tool of
theirs waits within our call until then, so that its guardrails, hooks and timeout come first.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass, field, fields, replace
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, Final, TypeVar

from toolstile_hookspecs import (
    HOST_TIMEOUT,
    ApprovalAnswer,
    DefinitionError,
    ExecutorHandle,
    ForeignCall,
    ForeignTool,
    Outcome,
    Status,
    Tool as OurTool,
    ToolCall,
    ToolContext as OurContext,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.execution.prompt_tools import section_tools
from toolstile_hookspecs.execution.schemas import ToolSchema
from toolstile_hookspecs.support.eager_task import begin
from toolstile_plugins.adapters import shared
from toolstile_plugins.adapters.turns import Turns
from toolstile_plugins.dialects.parse import opened

with shared.importing("openai-agents"):
    from agents import FunctionTool, RunContextWrapper, RunState, Tool, ToolApprovalItem
    from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
    from agents.tool_context import ToolContext
    from agents.tracing import FunctionSpanData, get_current_span, get_current_trace


class _Paused(Exception):
    """Their tool waits for a person, by its own rule."""


def toolset(tools: ExecutorHandle) -> list[Tool]:
    """Return the tools of an executor: `Agent(name, tools=toolset(tools))`.

    A call that a person must approve interrupts the run, as by `needs_approval`. See `question`
    and `answer`.

    Args:
        tools: The executor. In each turn the agent has the tools that can be called then.
    """
    gate = _Gate(tools)
    shown = [tool for section in tools.prompt.everywhere() for tool in section.tools]
    return [
        _offered(gate, tool)
        for tool in (*shown, *section_tools())
        if not isinstance(tool, ForeignTool) or tool.handler is not None
    ]


def foreign_tools(theirs: Iterable[Tool]) -> list[ForeignTool]:
    """Return function tools for `host.executor(tools=...)`, under their own names.

    The SDK alone ends a tool that has a timeout.
    """
    return [
        ForeignTool(
            tool.name,
            tool.description or tool.name,
            tool.params_json_schema,
            timeout=HOST_TIMEOUT if tool.timeout_seconds is None else None,
        )
        for tool in map(_function_tool, theirs)
    ]


def governed(theirs: Iterable[Tool], tools: ExecutorHandle) -> list[Tool]:
    """Return function tools each of whose calls passes the stages of an executor.

    Args:
        theirs: The tools of an agent.
        tools: An executor that knows them: `host.executor(tools=foreign_tools(theirs))`.

    Raises:
        DefinitionError: For a tool that the executor does not know, or that is not a function tool.
    """
    gate = _Gate(tools)
    found = [_function_tool(tool) for tool in theirs]
    for tool in found:
        shared.foreign_tool(tools, tool.name, "foreign_tools(theirs)")
    return [_governed(gate, tool) for tool in found]


def question(tools: ExecutorHandle, item: ToolApprovalItem) -> Mapping[str, str]:
    """Return the question of an interruption: its text, and a diff or ticket if it has one.

    Args:
        tools: An executor of the agent's session.
        item: One of `result.interruptions`.

    Returns:
        The question; empty for an interruption by the tool's own rule.
    """
    call = _call_of(item)
    kept = shared.waiting(tools, call.wire_id, call)
    return {} if kept is None else kept.question


def answer(
    tools: ExecutorHandle, state: RunState[Any, Any], item: ToolApprovalItem, given: GivenAnswer
) -> None:
    """Answer an interruption, and let its call pass our stages.

    `state.approve(item)` approves as well. After `state.reject(item)` the SDK answers the model
    without our stages.

    Args:
        tools: An executor of the agent's session.
        state: The state of the run, which `Runner.run(agent, state)` resumes.
        item: One of its interruptions.
        given: The answer: an approval, a denial with its reason, or an edit.

    Raises:
        StateError: When no such call waits in the session.
    """
    call = _call_of(item)
    shared.answer(tools, call.wire_id, given, call)
    state.approve(item)


# --- Tools


class _Tool(FunctionTool):
    """A tool about which the SDK asks before it runs it.

    The SDK would also interrupt the run for arguments that are not a JSON object, although the
    model can correct these without a person.
    """

    @property
    def needs_approval(self) -> Any:
        text = _arguments()
        return self._asks if text is None or isinstance(shared.read_json(text), dict) else False

    @needs_approval.setter
    def needs_approval(self, asks: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._asks = asks


def _offered(gate: _Gate, tool: OurTool[Any, Any]) -> Tool:
    shown = ToolSchema.of(tool)

    async def asks(context: RunContextWrapper[Any], given: dict[str, Any], call_id: str) -> bool:
        visit = await gate.visit(context, _call(shown.name, given, call_id), Visit)
        return visit.question is not None

    async def invoke(context: ToolContext[Any], text: str) -> Any:
        try:
            return (await gate.outcome(context, shown.name, text)).text
        except VisibilityExpansionRequired as request:
            return opened(gate.tools, request)

    return _Tool(
        shown.name,
        shown.description,
        dict(shown.parameters),
        invoke,
        strict_json_schema=False,
        is_enabled=lambda _, __: gate.offers(tool),
        needs_approval=asks,
    )


def _governed(gate: _Gate, theirs: FunctionTool) -> Tool:
    bare = copy(theirs)
    # An exception of the tool is a failure of the call; the SDK would make a result of it.
    vars(bare).update(_use_default_failure_error_function=False, _failure_error_function=None)

    async def asks(context: RunContextWrapper[Any], given: dict[str, Any], call_id: str) -> bool:
        visit = await gate.visit(context, _call(theirs.name, given, call_id), HeldVisit)
        rule = theirs.needs_approval
        if visit.is_held:
            asked = rule(context, given, call_id) if callable(rule) else rule
            if await asked if isawaitable(asked) else asked:
                await visit.leave()
                return True
        return visit.question is not None

    async def invoke(context: ToolContext[Any], text: str) -> Any:
        run = shared.ForeignRun((_Paused,))

        async def within(arguments: dict[str, Any]) -> Any:
            returned = await bare.on_invoke_tool(context, json.dumps(arguments))
            # An agent as a tool is paused if its own run waits for a person.
            scope, call = get_agent_tool_state_scope(context), context.tool_call
            inner = None if call is None else peek_agent_tool_run_result(call, scope_id=scope)
            if inner is not None and inner.interruptions:
                raise _Paused
            return returned

        try:
            outcome = await gate.outcome(context, theirs.name, text, run.using(within))
        except shared.ForeignPause:
            return None  # the SDK finds the interruptions of an agent as a tool by itself
        return run.given(outcome)

    made: dict[str, Any] = {"on_invoke_tool": invoke, "needs_approval": asks}
    own = {each.name: getattr(theirs, each.name) for each in fields(FunctionTool) if each.init}
    # A tool with its own rule keeps asking about all arguments.
    kind = _Tool if theirs.needs_approval is False else FunctionTool
    return kind(**{**own, **made})


def _function_tool(tool: Tool) -> FunctionTool:
    if isinstance(tool, FunctionTool):
        return tool
    raise DefinitionError(
        f"{tool.name} is a {type(tool).__name__}, which the SDK or OpenAI runs by itself, so its "
        "calls cannot pass the stages. Give it to the agent beside the governed tools, as "
        f"Agent(tools=[*governed(...), {tool.name}])."
    )


# --- Calls


@dataclass(eq=False)
class _Turn:
    """The calls of a turn of a run, by their ids in order; equal only to itself."""

    ids: list[str] = field(default_factory=list[str])


_SomeVisit = TypeVar("_SomeVisit", bound="Visit")


class _Gate:
    def __init__(self, tools: ExecutorHandle) -> None:
        self.tools = tools
        self._turns = Turns(tools)
        self._standing: dict[int, _Turn] = {}

    def offers(self, tool: OurTool[Any, Any]) -> bool:
        return any(each is tool for each in self.tools.prompt.tools(self.tools.session))

    async def visit(
        self, context: RunContextWrapper[Any], call: ToolCall, made: type[_SomeVisit]
    ) -> _SomeVisit:
        """Dispatch a call with its turn; return once it is known whether it waits."""
        visit = visit_of(call.wire_id)
        if isinstance(visit, made):  # the SDK asks again
            return visit
        visit, call = made(), _of_run(context, call)
        VISITS.set({**VISITS.get(), call.wire_id: visit})
        turn = await self._turn(context, call.wire_id)
        await visit.begin(self._turns.dispatch(call, turn, turn.ids, visit.using))
        if (outcome := visit.question) is not None:
            visit.is_over = True
            shared.waits(self.tools, outcome, call)
        return visit

    async def outcome(
        self, context: ToolContext[Any], name: str, text: str, using: ForeignCall | None = None
    ) -> Outcome:
        visit, call = visit_of(context.tool_call_id), _call(name, text, context.tool_call_id)
        if visit is None:  # a person has answered, or the SDK has not asked
            approved = ApprovalAnswer.approve()
            outcome = await shared.adispatch(self.tools, _of_run(context, call), using, approved)
        else:
            outcome = await visit.end(using)
        if outcome.status is Status.PENDING:
            shared.waits(self.tools, outcome, call)
        if outcome.is_error and (span := get_current_span()) is not None:
            span.set_error({"message": f"{name}: {outcome.status}", "data": None})
        return outcome

    async def _turn(self, context: RunContextWrapper[Any], call_id: str) -> _Turn:
        """Return the turn of a call: the SDK starts all calls of one in one pass of the loop."""
        turn = self._standing.setdefault(id(context), _Turn())
        turn.ids.append(call_id)
        await asyncio.sleep(0)
        self._standing.pop(id(context), None)
        return turn


def _call(name: str, given: str | dict[str, Any], call_id: str) -> ToolCall:
    """Return a call with its arguments as the model wrote them, if these are known."""
    if isinstance(given, str):
        # Some providers send nothing for a tool without arguments.
        return ToolCall(name, given if given.strip() else "{}", provider_id=call_id)
    text = _arguments()
    arguments = given if text is None or shared.read_json(text) != given else text
    return ToolCall(name, arguments, provider_id=call_id)


def _of_run(context: RunContextWrapper[Any], call: ToolCall) -> ToolCall:
    """Return a call under an id that stays the same if a state of its run is resumed again.

    Without tracing neither the run nor the call has such an id.
    """
    trace, reply = get_current_trace(), context.usage.requests
    if trace is None or not (trace.trace_id.startswith("trace_") and reply and call.provider_id):
        return call
    # Several runs may share a trace, and a model may use an id again.
    said = json.dumps(context.turn_input, sort_keys=True, default=str)
    digest = hashlib.sha256(f"{said} {shared.digest_of(call)}".encode()).hexdigest()[:32]
    return replace(call, id=f"{trace.trace_id}/{reply}/{call.provider_id}/{digest}")


def _call_of(item: ToolApprovalItem) -> ToolCall:
    return ToolCall(item.name or "", item.arguments or "{}", provider_id=item.call_id or "")


def _arguments() -> str | None:
    """Return the arguments as the model wrote them, which only the span of the tool has."""
    span = get_current_span()
    data = None if span is None else span.span_data
    return data.input if isinstance(data, FunctionSpanData) else None


class Visit:
    """A call between the question of the SDK about it and the run of its tool."""

    using: ForeignCall | None = None
    """Runs a tool of theirs."""

    def __init__(self) -> None:
        self.is_over = False
        self._outcome: Outcome | None = None
        self._error: Exception | None = None

    @property
    def question(self) -> Outcome | None:
        outcome = self._outcome
        return outcome if outcome is not None and outcome.status is Status.PENDING else None

    async def begin(self, dispatched: Coroutine[Any, Any, Outcome]) -> None:
        """Run the call until it is known whether it waits for a person."""
        try:
            self._outcome = await dispatched
        except Exception as error:  # noqa: BLE001 - raised when the SDK runs the tool
            self._error = error

    async def end(self, using: ForeignCall | None) -> Outcome:
        del using
        self.is_over = True
        if self._outcome is None:
            raise self._error or RuntimeError
        return self._outcome


class HeldVisit(Visit):
    """A call of a tool of theirs, which is held until the SDK runs it."""

    def __init__(self) -> None:
        super().__init__()
        self.using = self._run
        self._loop = asyncio.get_running_loop()
        self._known: asyncio.Future[None] = self._loop.create_future()
        self._entered: asyncio.Future[ForeignCall] = self._loop.create_future()

    @property
    def is_held(self) -> bool:
        """True while the tool of theirs is about to run."""
        return not self._task.done()

    async def begin(self, dispatched: Coroutine[Any, Any, Outcome]) -> None:
        """Run the call in another task until it waits, or reaches its tool."""
        self._task = begin(self._loop, super().begin(dispatched))
        self._task.add_done_callback(self._tell)
        if (asker := asyncio.current_task()) is not None:
            # If the SDK does not run the tool, the call ends with the task that has asked.
            asker.add_done_callback(self._stop)
        try:
            await self._known
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def end(self, using: ForeignCall | None) -> Outcome:
        if using is not None and not self._entered.done():
            self._entered.set_result(using)
        await self._task
        return await super().end(using)

    async def leave(self) -> None:
        """Roll the call back: the tool asks by its own rule, and its call is made later."""

        async def pause(_: dict[str, Any], __: OurContext) -> Any:
            raise shared.ForeignPause

        with suppress(shared.ForeignPause):
            await self.end(pause)

    async def _run(self, arguments: dict[str, Any], context: OurContext) -> Any:
        self._tell()
        return await (await self._entered)(arguments, context)

    def _tell(self, _: object = None) -> None:
        if not self._known.done():
            self._known.set_result(None)

    def _stop(self, _: object) -> None:
        self._task.cancel()


VISITS: Final[ContextVar[Mapping[str, Visit]]] = ContextVar(
    "toolstile_visits", default=MappingProxyType({})
)
"""The visits by the ids of their calls; the task that runs a tool inherits its asker's visits."""


def visit_of(call_id: str) -> Visit | None:
    """Return the visit of a call that the SDK has asked about and not run yet, or None."""
    visit = VISITS.get().get(call_id)
    return None if visit is None or visit.is_over else visit
