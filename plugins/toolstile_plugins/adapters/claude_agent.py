"""Claude Agent SDK: our tools as a server of its sessions, and its tools behind our stages.

Claude Code runs in another process and asks over a pipe, call by call: each call is dispatched by
itself. Between two of its hooks, Claude Code runs its tool: that is the handler of the call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast, overload

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
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.execution.schemas import ToolSchema
from toolstile_hookspecs.support.text import cut, legible
from toolstile_plugins.adapters.shared import TOKEN, foreign_tool, importing, question
from toolstile_plugins.dialects.parse import opened
from toolstile_plugins.hook.agents import ClaudeCode, Decision, Event
from toolstile_plugins.hook.open_calls import Dispatch, OpenCalls, ToolFailed

with importing("claude-agent"):
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage
    from claude_agent_sdk.types import (
        HookCallback,
        HookContext,
        HookEvent,
        HookInput,
        HookJSONOutput,
        McpSdkServerConfig,
        SyncHookJSONOutput,
    )
    from mcp.server import Server
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult

SERVER: Final = "toolstile"
"""The name of our server in `mcp_servers`."""
_CLAUDE: Final = ClaudeCode()
BUILT_IN: Final = (*_CLAUDE.categories,)
"""The names of Claude Code's own tools."""

Theirs = Iterable[str] | Mapping[str, Mapping[str, Any]] | ClaudeAgentOptions


PREFIX: Final = "mcp__toolstile__"
"""The prefix of our tools in Claude Code."""
WAIT: Final = 7 * 24 * 3600.0
"""Seconds that a hook may take, since the approver may be a person."""
_CALLS: Final = "claude_session_calls"
AGAIN: Final = "Call it again, unchanged: the session then waits for the answer."

Hooks = dict[HookEvent, list[HookMatcher]]
_Answered = tuple[str, str, GivenAnswer]
"""The id under which a call waits, its token and the answer."""
_Place = tuple[str, str]
"""A session and the id of a call: the forks of a session have the same ids."""
_Same = tuple[str, str]
"""The id of a call, and its tool and arguments: our server does not know the session."""
_Kept = TypeVar("_Kept")


# --- Our tools in their agent


def toolset(tools: ExecutorHandle) -> McpSdkServerConfig:
    """Return the tools of an executor for `ClaudeAgentOptions(mcp_servers={"toolstile": ...})`.

    Claude Code lists them once, when a session connects, with the tools of closed sections.

    Args:
        tools: The executor. With its hooks in `governed` options, a call that waits for a person
            pauses the session.
    """
    return _server(calls_of(tools), is_offering=True)


def _server(calls: SessionCalls, *, is_offering: bool) -> McpSdkServerConfig:
    async def listed(*_: object) -> ListToolsResult:
        prompt, session = calls.tools.prompt, calls.tools.session
        places = prompt.places(session)
        closed = [tool for place in places if not place.open for tool in place.section.tools]
        shown = [
            {
                "name": tool.name,
                "description": (schema := ToolSchema.of(tool)).description,
                "inputSchema": {"type": "object", **schema.parameters},
                # Claude Code makes the read-only calls of a turn side by side, others in order.
                "annotations": {"readOnlyHint": tool.category == "read"},
                "_meta": {"anthropic/alwaysLoad": True},
            }
            for tool in (*prompt.tools(session), *closed)
            if is_offering and (not isinstance(tool, ForeignTool) or tool.call is not None)
        ]
        return ListToolsResult.model_validate({"tools": shown})

    async def called(_: object, params: CallToolRequestParams) -> CallToolResult:
        meta = cast("Mapping[str, Any]", params.meta or {})
        id_ = meta.get("claudecode/toolUseId", "")
        read = await calls.read(_identified(params.name, params.arguments or {}, id_))
        content = [{"type": "text", "text": read.text}]
        return CallToolResult.model_validate({"content": content, "isError": read.is_error})

    server = Server(SERVER, lifespan=calls.connected, on_list_tools=listed, on_call_tool=called)
    return McpSdkServerConfig(type="sdk", name=SERVER, instance=server)


# --- Their tools behind our stages


def foreign_tools(theirs: Theirs = BUILT_IN) -> list[ForeignTool]:
    """Return tools of Claude Code for `host.executor(tools=...)`, under their own names.

    Their names decide their categories, `side_effect` for an unknown tool; Claude Code's timeouts
    apply. The configuration says the rest, as under `[tools.Bash]`.

    Args:
        theirs: Their names, such as `Bash` or `mcp__github__create_issue`; JSON Schemas of their
            arguments by name, to check the arguments here, too; or options that name them.
    """
    has_schemas = isinstance(cast("object", theirs), Mapping)
    schemas = cast("Mapping[str, Any]", theirs) if has_schemas else dict[str, Any]()
    names = cast("Iterable[str]", theirs)
    if isinstance(theirs, ClaudeAgentOptions):
        own = theirs.tools if isinstance(theirs.tools, list) else BUILT_IN
        allowed = (name for name in theirs.allowed_tools if name.startswith("mcp__"))
        names = [*own, *(name for name in allowed if not name.startswith(PREFIX))]
    return [
        ForeignTool(
            name,
            f"{name}, a tool of Claude Code.",
            schemas.get(name, {"type": "object"}),
            category=_CLAUDE.categories.get(name, "side_effect"),
            timeout=None,
        )
        for name in names
    ]


@overload
def governed(theirs: ClaudeAgentOptions, tools: ExecutorHandle) -> ClaudeAgentOptions: ...
@overload
def governed(theirs: Iterable[str], tools: ExecutorHandle) -> Hooks: ...
def governed(theirs: Theirs, tools: ExecutorHandle) -> ClaudeAgentOptions | Hooks:
    """Put every call of a session and of its subagents behind the stages of an executor.

    The permissions of Claude Code apply as before.

    Args:
        theirs: The options of the session, or the names of its tools.
        tools: An executor that knows them: `host.executor(tools=foreign_tools(theirs))`. It
            rejects a call of an unknown tool.

    Returns:
        The options with our hooks beside theirs; for names, the hooks for
        `ClaudeAgentOptions(hooks=...)`.
    """
    calls = calls_of(tools)
    hooks = calls.hooks()
    if not isinstance(theirs, ClaudeAgentOptions):
        return hooks
    own = theirs.hooks or {}
    both: Hooks = {event: [*own.get(event, []), *hooks.get(event, [])] for event in own | hooks}
    servers = theirs.mcp_servers
    if isinstance(servers, dict):  # the server learns the end of the session
        servers = {SERVER: _server(calls, is_offering=False), **servers}
    return replace(theirs, hooks=both, mcp_servers=servers)


# --- A person decides


def paused(message: ResultMessage, tools: ExecutorHandle) -> Paused | None:
    """Return the call for which a session is paused, None if the session has ended.

    Args:
        message: The last message of the session.
        tools: Its executor.
    """
    deferred = message.deferred_tool_use
    place = message.session_id, "" if deferred is None else deferred.id
    return calls_of(tools).paused.get(place)


def answered(call: Paused, answer: GivenAnswer, tools: ExecutorHandle) -> None:
    """Answer a call for which a session is paused, before the session is resumed.

    Args:
        call: The call, perhaps of another process.
        answer: The answer of a person.
        tools: The executor of the resumed session.
    """
    given = call.call_id or call.id, call.question[TOKEN], answer
    calls_of(tools).answers[call.session_id, call.id] = given


# --- The calls of sessions: each is dispatched at one hook, and ends at another


@dataclass(frozen=True)
class Paused:
    """A call for which a session is paused; `dataclasses.asdict` of it is plain JSON.

    Args:
        session_id: The session, for `ClaudeAgentOptions(resume=...)`.
        id: The id of the call in Claude Code.
        name: Its tool.
        arguments: Its arguments.
        question: The question to a person, a diff if the call has one, and the token of the
            answer; show the token only to people who may decide.
        call_id: The host's id of the call; "" from an earlier release.
    """

    session_id: str
    id: str
    name: str
    arguments: Mapping[str, Any] = field(repr=False)
    question: Mapping[str, str] = field(repr=False)
    call_id: str = ""


@dataclass(frozen=True)
class Read:
    """The answer to a call of our tools, as its model reads it."""

    text: str
    is_error: bool


class SessionCalls:
    """The calls of all sessions over one executor."""

    def __init__(self, tools: ExecutorHandle) -> None:
        self.tools = tools
        self.paused: dict[_Place, Paused] = {}
        self.answers: dict[_Place, _Answered] = {}
        """Answers of people."""
        self._open = OpenCalls()
        self._known: dict[_Same, Read | _Answered] = {}
        """Ends of calls, or answers to them, before our server is asked for them."""
        self._repeatable: dict[str, Outcome] = {}
        """Calls that wait for a person, until the model repeats them."""
        self._deferred: dict[str, str] = {}
        """The call for which a session pauses: Claude Code keeps one."""
        self._decided: dict[_Place, asyncio.Future[None]] = {}
        self._stops: dict[_Same, str] = {}
        """Why a session ends with a call."""
        self._connections = 0
        self._is_hooked = False

    def hooks(self) -> Hooks:
        """Return the hooks that put each call of a session behind our stages."""
        self._is_hooked = True
        events: dict[str, list[HookCallback]] = {
            "PreToolUse": [self._before, self._hold],
            "PostToolUse": [self._after],
            "PostToolUseFailure": [self._after],
            # After a turn's calls or a subagent, and at the next prompt, a call that did not run
            # before will not run.
            "PostToolBatch": [self._end_left],
            "SubagentStop": [self._end_left],
            "UserPromptSubmit": [self._end_left],
        }
        matchers = {
            event: [HookMatcher(hooks=hooks, timeout=WAIT, on_failure="block")]
            for event, hooks in events.items()
        }
        return cast("Hooks", matchers)

    async def _dispatched(
        self, call: ToolCall, answered: _Answered | None, using: ForeignCall | None = None
    ) -> Outcome:
        if answered is None:
            return await self.tools.adispatch(call, using=using)
        id_, token, answer = answered
        return await self.tools.aresume(replace(call, id=id_), token, answer, using=using)

    # --- Our tools

    async def read(self, call: ToolCall) -> Read:
        known = _taken(self._known, _same(call))
        if isinstance(known, Read):
            return known
        ended = await self._ended(call, known)
        if isinstance(ended, Read):
            return ended
        if ended.status is Status.PENDING and self._is_hooked:
            self._repeatable[_key(call.name, call.arguments)] = ended
            return Read(f"{ended.text} {AGAIN}", is_error=True)
        return Read(ended.text, ended.is_error)

    async def _ended(self, call: ToolCall, answered: _Answered | None = None) -> Outcome | Read:
        try:
            return await self._dispatched(call, answered)
        except VisibilityExpansionRequired as request:
            return Read(opened(self.tools, request), is_error=False)
        except Exception as error:  # noqa: BLE001 - it ends the session, which is another process
            self._stops[_same(call)] = str(error)
            return Read(cut(legible(str(error))), is_error=True)

    async def _before_own(self, event: Event) -> SyncHookJSONOutput:
        """Pause the session for a call that a person must approve."""
        call = _call(event)
        if (answered := self.answers.pop(_place(event), None)) is not None:
            self._known[_same(call)] = answered
            return {}
        repeated = self._repeatable.pop(_key(call.name, call.arguments), None)
        if repeated is not None:
            return self._defer(event, repeated)
        # Another call is dispatched after the hooks and the permissions of others.
        offered = self.tools.prompt.tools(self.tools.session)
        if not any(tool.name == call.name and tool.requires_confirmation for tool in offered):
            return {}
        ended = await self._ended(call)
        if isinstance(ended, Outcome):
            if ended.status is Status.PENDING:
                return self._defer(event, ended)
            ended = Read(ended.text, ended.is_error)
        self._known[_same(call)] = ended
        return {}

    # --- Their tools

    async def _admit(self, event: Event) -> SyncHookJSONOutput:
        """Let Claude Code make a call, perhaps with edited arguments, or reject it."""
        call, answered = _call(event), self.answers.pop(_place(event), None)
        try:
            foreign_tool(self.tools, call.name, f"foreign_tools([{call.name!r}, ...])")
        except DefinitionError as error:
            return _deny(event, str(error))
        dispatch: Dispatch = lambda call, run: self._dispatched(call, answered, run)  # noqa: E731
        try:
            begun = await self._open.begin(event.place, call, dispatch)
        except Exception as error:  # noqa: BLE001 - it ends the session, which is another process
            return _stop(str(error)) | _deny(event, str(error))
        if not isinstance(begun, Outcome):
            same = begun == call.arguments
            return {} if same else _answer(event, Decision(arguments=begun))
        if begun.status is Status.PENDING:
            return self._defer(event, begun)
        if begun.success:  # a ledger or a recording has answered
            text = f"{call.name} was done before and did not run again: {begun.text}"
            return _deny(event, text)
        return _deny(event, begun.text)

    # --- Hooks

    async def _before(self, given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        event = _event(given)
        session_id, call_id = place = _place(event)
        decided = self._decided[place] = asyncio.get_running_loop().create_future()
        try:
            if self._deferred.get(session_id) == call_id:  # the session continues
                del self._deferred[session_id]
                self.paused.pop(place, None)
            is_own = event.tool.startswith(PREFIX)
            return await (self._before_own(event) if is_own else self._admit(event))
        finally:
            decided.set_result(None)

    async def _hold(self, given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        """Reject a waiting call if Claude Code ignores `defer`, as it does without streaming."""
        event = _event(given)
        place = _place(event)
        if (decided := self._decided.pop(place, None)) is not None:
            await decided
        if (waits := self.paused.get(place)) is None:
            return {}
        return _answer(event, Decision(verdict="ask", reason=waits.question["question"]))

    def _defer(self, event: Event, outcome: Outcome) -> SyncHookJSONOutput:
        session_id, call_id = place = _place(event)
        if event.agent:
            why = "A subagent cannot wait: leave that call to the main agent."
            return _deny(event, f"{outcome.text} {why}")
        if self._deferred.setdefault(session_id, call_id) != call_id:
            why = "Another call is waiting: retry this one after that."
            return _deny(event, f"{outcome.text} {why}")
        self.paused[place] = Paused(
            session_id, call_id, event.tool, event.arguments, question(outcome), outcome.call.id
        )
        return _answer(event, Decision(verdict="defer", reason=outcome.text))

    async def _after(self, given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        """End a call with its result; tell the model if the result is not kept."""
        event = _event(given)
        error = None if event.error is None else ToolFailed(event.error)
        try:
            outcome = await self._open.end(
                event.place, event.response, error=error, is_cancelled=event.interrupted
            )
        except Exception as raised:  # noqa: BLE001 - it ends the session, which is another process
            return _stop(str(raised))
        if outcome is None:
            why = _taken(self._stops, _same(_call(event)))
            return {} if why is None else _stop(why)
        if outcome.is_error and not isinstance(outcome.event.error, ToolFailed):
            return _answer(event, Decision(verdict="block", reason=outcome.text))
        # A plugin may have replaced the result.
        replaced = outcome.success and outcome.result.value != event.response
        return _answer(event, Decision(output=outcome.result.value)) if replaced else {}

    async def _end_left(self, given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        event = _event(given)
        if event.name == "UserPromptSubmit":  # the session waits no longer
            self._deferred.pop(event.session, None)
        await self._open.close(self._open.left_at(event))
        return {}

    @asynccontextmanager
    async def connected(self, _: object) -> AsyncGenerator[None]:
        """Count a session that is connected; with the last session, all calls end."""
        self._connections += 1
        try:
            yield
        finally:
            self._connections -= 1
            if not self._connections:
                await self._open.close(self._open.places())


def _event(given: HookInput) -> Event:
    return _CLAUDE.read(cast("Mapping[str, Any]", given))


def _place(event: Event) -> _Place:
    return event.session, event.id


def _call(event: Event) -> ToolCall:
    name = event.tool.removeprefix(PREFIX)
    return _identified(name, event.arguments, event.id, f"{event.session}/")


def _identified(name: str, arguments: dict[str, Any], id_: str, session: str = "") -> ToolCall:
    call = ToolCall(name, arguments, provider_id=id_)
    # Anthropic uses an id once; another server behind Claude Code may use it again.
    return replace(call, id=f"{session}{id_}") if id_.startswith("toolu_") else call


def _same(call: ToolCall) -> _Same:
    return call.wire_id, _key(call.name, call.arguments)


def _taken(kept: dict[_Same, _Kept], same: _Same) -> _Kept | None:
    """Take the entry of a call; Claude Code may have corrected its arguments since."""
    alike = (other for other in kept if other[0] == same[0])
    found = same if same in kept else next(alike, None)
    return None if found is None else kept.pop(found)


def _key(name: str, arguments: Any) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def _answer(event: Event, decision: Decision) -> SyncHookJSONOutput:
    return cast("SyncHookJSONOutput", _CLAUDE.answer(event, decision))


def _deny(event: Event, reason: str) -> SyncHookJSONOutput:
    return _answer(event, Decision(verdict="deny", reason=reason))


def _stop(reason: str) -> SyncHookJSONOutput:
    return {"continue_": False, "stopReason": reason}


def calls_of(tools: ExecutorHandle) -> SessionCalls:
    """Return the calls over an executor; its server and its hooks share them."""
    # The executor keeps them: they refer to it, so a weak mapping would never drop an executor.
    kept: dict[str, SessionCalls] = vars(tools)
    if _CALLS not in kept:
        kept[_CALLS] = SessionCalls(tools)
    return kept[_CALLS]
