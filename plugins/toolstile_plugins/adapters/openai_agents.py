"""OpenAI Agents SDK: our tools in its agents, and its function tools behind our stages.

The SDK asks for approval before it runs a tool, and at no other moment can a run wait. So a call is
dispatched when the SDK asks, and what comes of it is kept until the SDK runs the tool. A tool of
theirs is held within our call until then, so that its guardrails, hooks and timeout come first.
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
from toolstile_plugins.adapters.shared import (
    TOKEN,
    ControlFlow,
    ForeignPause,
    ForeignRun,
    FrameworkImport,
    foreign_tool,
)
from toolstile_plugins.adapters.turns import Turns
from toolstile_plugins.dialects.parse import opened

with FrameworkImport("openai-agents"):
    from agents import FunctionTool, RunContextWrapper, RunState, Tool, ToolApprovalItem
    from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
    from agents.tool_context import ToolContext
    from agents.tracing import FunctionSpanData, get_current_span, get_current_trace

    from toolstile_plugins.adapters import shared


class _Paused(Exception):
    """Their tool waits for a person, by a rule of its own."""


_CONTROL: Final = ControlFlow(pauses=(_Paused,))


def toolset(tools: ExecutorHandle) -> list[Tool]:
    """Return the tools of an executor: `Agent(name, tools=toolset(tools))`.

    A call that a person has to approve interrupts the run, as by `needs_approval`. See `question`
    and `answer`.

    Args:
        tools: The executor. The agent is shown the tools that can be called in each turn.
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

    One that has a timeout is ended by the SDK alone.
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
        DefinitionError: For a tool that the executor does not know, or that is no function tool.
    """
    gate = _Gate(tools)
    found = [_function_tool(tool) for tool in theirs]
    for tool in found:
        foreign_tool(tools, tool.name, "foreign_tools(theirs)")
    return [_governed(gate, tool) for tool in found]


def question(tools: ExecutorHandle, item: ToolApprovalItem) -> Mapping[str, str]:
    """Return the question of an interruption: its text, a diff or ticket where there is one.

    Args:
        tools: An executor of the session in which the agent ran.
        item: One of `result.interruptions`.

    Returns:
        The question; empty for an interruption by a rule of the tool's own.
    """
    call = _call_of(item)
    kept = shared.waiting(tools, call.wire_id, _digest(call))
    return {} if kept is None else kept.question


def answer(
    tools: ExecutorHandle, state: RunState[Any, Any], item: ToolApprovalItem, given: GivenAnswer
) -> None:
    """Answer an interruption with all that an answer can say, and let its call pass our stages.

    `state.approve(item)` approves as well. After `state.reject(item)` the SDK answers the model by
    itself, and our stages do not hear of it.

    Args:
        tools: An executor of the session in which the agent ran.
        state: The state of the run, which `Runner.run(agent, state)` resumes.
        item: One of its interruptions.
        given: The answer: an approval, a denial with its reason, or an edit.

    Raises:
        StateError: When no such call waits in the session.
    """
    call = _call_of(item)
    shared.answer(tools, call.wire_id, given, _digest(call))
    state.approve(item)


# --- Tools


class _Tool(FunctionTool):
    """A tool of which the SDK asks before it runs it.

    Without this the SDK interrupts the run for arguments that are no JSON object: a person would
    have to read what the model can put right.
    """

    @property
    def needs_approval(self) -> Any:
        """Ask, where the arguments are an object."""
        text = _arguments()
        return self._asks if text is None or isinstance(_read(text), dict) else False

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
    # What it raises is a failure of the call; else the SDK would make a result of it.
    vars(bare).update(_use_default_failure_error_function=False, _failure_error_function=None)

    async def asks(context: RunContextWrapper[Any], given: dict[str, Any], call_id: str) -> bool:
        visit = await gate.visit(context, _call(theirs.name, given, call_id), HeldVisit)
        if visit.is_held and await _asks_itself(theirs, context, given, call_id):
            await visit.leave()
            return True
        return visit.question is not None

    async def invoke(context: ToolContext[Any], text: str) -> Any:
        run = ForeignRun(_CONTROL)

        async def within(arguments: dict[str, Any]) -> Any:
            returned = await bare.on_invoke_tool(context, json.dumps(arguments))
            if _is_interrupted(context):
                raise _Paused
            return returned

        try:
            outcome = await gate.outcome(context, theirs.name, text, run.using(within))
        except ForeignPause:
            return None  # the SDK finds the interruptions of an agent that is a tool by itself
        return run.given(outcome)

    made: dict[str, Any] = {"on_invoke_tool": invoke, "needs_approval": asks}
    own = {each.name: getattr(theirs, each.name) for each in fields(FunctionTool) if each.init}
    # What asks by a rule of its own goes on asking of all arguments.
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


async def _asks_itself(
    theirs: FunctionTool, context: RunContextWrapper[Any], given: dict[str, Any], call_id: str
) -> bool:
    asks = theirs.needs_approval
    found = asks(context, given, call_id) if callable(asks) else asks
    return bool(await found if isawaitable(found) else found)


def _is_interrupted(context: ToolContext[Any]) -> bool:
    """Tell whether the tool is an agent whose own run waits for a person."""
    scope = get_agent_tool_state_scope(context)
    call = context.tool_call
    run = None if call is None else peek_agent_tool_run_result(call, scope_id=scope)
    return bool(run is not None and run.interruptions)


# --- Calls


@dataclass(eq=False)
class _Turn:
    """The calls of a turn of a run, by their ids in order; no turn is another."""

    ids: list[str] = field(default_factory=list[str])


_SomeVisit = TypeVar("_SomeVisit", bound="Visit")


class _Gate:
    def __init__(self, tools: ExecutorHandle) -> None:
        self.tools = tools
        self._turns = Turns(tools)
        self._standing: dict[int, _Turn] = {}

    def offers(self, tool: OurTool[Any, Any]) -> bool:
        """Tell whether a tool can be called now."""
        return any(each is tool for each in self.tools.prompt.tools(self.tools.session))

    async def visit(
        self, context: RunContextWrapper[Any], call: ToolCall, made: type[_SomeVisit]
    ) -> _SomeVisit:
        """Dispatch a call with those of its turn; return once it is known whether it waits."""
        visit = visit_of(call.wire_id)
        if isinstance(visit, made):  # the SDK asks again
            return visit
        visit, call = made(), _of_run(context, call)
        VISITS.set({**VISITS.get(), call.wire_id: visit})
        turn = await self._turn(context, call.wire_id)
        await visit.begin(self._turns.dispatch(call, turn, turn.ids, visit.using))
        if (outcome := visit.question) is not None:
            visit.is_over = True
            shared.waits(self.tools, outcome, _digest(call))
        return visit

    async def outcome(
        self, context: ToolContext[Any], name: str, text: str, using: ForeignCall | None = None
    ) -> Outcome:
        """Return the outcome of a call, which the SDK has asked about or a person has answered."""
        visit, call = visit_of(context.tool_call_id), _call(name, text, context.tool_call_id)
        outcome = await (
            self._resumed(_of_run(context, call), using) if visit is None else visit.end(using)
        )
        if outcome.status is Status.PENDING:
            shared.waits(self.tools, outcome, _digest(call))
        if outcome.is_error and (span := get_current_span()) is not None:
            span.set_error({"message": f"{name}: {outcome.status}", "data": None})
        return outcome

    async def _resumed(self, call: ToolCall, using: ForeignCall | None) -> Outcome:
        """Go on with a call that waited, or dispatch one that the SDK has not asked about."""
        if (kept := shared.waiting(self.tools, call.wire_id, _digest(call))) is None:
            return await self.tools.adispatch(call, using=using)
        given, token = kept.answer or ApprovalAnswer.approve(), kept.question[TOKEN]
        call = shared.as_kept(call, kept)
        outcome = await self.tools.aresume(call, token, given, using=using)
        shared.went_on(self.tools, kept)
        return outcome

    async def _turn(self, context: RunContextWrapper[Any], call_id: str) -> _Turn:
        """Return the turn of a call: the SDK starts all calls of one in one pass of the loop."""
        turn = self._standing.setdefault(id(context), _Turn())
        turn.ids.append(call_id)
        await asyncio.sleep(0)
        self._standing.pop(id(context), None)
        return turn


def _call(name: str, given: str | dict[str, Any], call_id: str) -> ToolCall:
    """Return a call with its arguments as the model wrote them, where they are known."""
    if isinstance(given, str):
        # Some providers send nothing for a tool without arguments.
        return ToolCall(name, given if given.strip() else "{}", provider_id=call_id)
    text = _arguments()
    told = given if text is None or _read(text) != given else text
    return ToolCall(name, told, provider_id=call_id)


def _of_run(context: RunContextWrapper[Any], call: ToolCall) -> ToolCall:
    """Return a call under an id that is the same when a state of its run is resumed again.

    Without tracing a run has no id, and neither has the call.
    """
    trace, reply = get_current_trace(), context.usage.requests
    if trace is None or not (trace.trace_id.startswith("trace_") and reply and call.provider_id):
        return call
    # Several runs may share a trace, and a model may use an id again.
    said = json.dumps(context.turn_input, sort_keys=True, default=str)
    told = hashlib.sha256(f"{said} {_digest(call)}".encode()).hexdigest()[:32]
    return replace(call, id=f"{trace.trace_id}/{reply}/{call.provider_id}/{told}")


def _call_of(item: ToolApprovalItem) -> ToolCall:
    return ToolCall(item.name or "", item.arguments or "{}", provider_id=item.call_id or "")


def _digest(call: ToolCall) -> str:
    """Return what tells calls of the same id apart: runs of a session may have such."""
    given = call.arguments
    read = _read(given) if isinstance(given, str) else given
    made = given if read is None else json.dumps(read, sort_keys=True)
    return hashlib.sha256(f"{call.name} {made!r}".encode()).hexdigest()


def _arguments() -> str | None:
    span = get_current_span()
    data = None if span is None else span.span_data
    return data.input if isinstance(data, FunctionSpanData) else None


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


class Visit:
    """A call between the moment at which the SDK asks about it and that at which it runs it.

    Attributes:
        using: Runs a tool of theirs.
        is_over: Whether the SDK has the outcome.
    """

    using: ForeignCall | None = None

    def __init__(self) -> None:
        self.is_over = False
        self._outcome: Outcome | None = None
        self._error: Exception | None = None

    @property
    def question(self) -> Outcome | None:
        """The outcome of a call that waits for a person."""
        outcome = self._outcome
        return outcome if outcome is not None and outcome.status is Status.PENDING else None

    async def begin(self, dispatched: Coroutine[Any, Any, Outcome]) -> None:
        """Carry the call on until it is known whether it waits for a person."""
        try:
            self._outcome = await dispatched
        except Exception as error:  # noqa: BLE001 - raised where the SDK runs the tool
            self._error = error

    async def end(self, using: ForeignCall | None) -> Outcome:
        """Return the outcome, now that the SDK runs the tool."""
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
        """Carry the call on in a task of its own until it waits, or holds its tool back."""
        self._task = begin(self._loop, super().begin(dispatched))
        self._task.add_done_callback(self._tell)
        if (asker := asyncio.current_task()) is not None:
            # Where the SDK does not come to run the tool, nobody else ends the call.
            asker.add_done_callback(self._stop)
        try:
            await self._known
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def end(self, using: ForeignCall | None) -> Outcome:
        """Let the tool run; return the outcome."""
        if using is not None and not self._entered.done():
            self._entered.set_result(using)
        await self._task
        return await super().end(using)

    async def leave(self) -> None:
        """Roll the call back: the tool asks by a rule of its own, and its call is made later."""

        async def pause(_: dict[str, Any], __: OurContext) -> Any:
            raise ForeignPause

        with suppress(ForeignPause):
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
"""The visits by the ids of their calls; the task that runs a tool inherits those of its asker."""


def visit_of(call_id: str) -> Visit | None:
    """Return the visit of a call that the SDK has asked about and not run yet, or None."""
    visit = VISITS.get().get(call_id)
    return None if visit is None or visit.is_over else visit
