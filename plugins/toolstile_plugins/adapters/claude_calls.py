"""The calls of Claude Code's sessions: each is dispatched at one hook, and ends at another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

from claude_agent_sdk import HookMatcher
from claude_agent_sdk.types import (
    HookCallback,
    HookContext,
    HookEvent,
    HookInput,
    HookJSONOutput,
    PostToolUseFailureHookInput,
    PostToolUseHookInput,
    PreToolUseHookInput,
    SyncHookJSONOutput,
)

from toolstile_hookspecs import (
    Cancellation,
    DefinitionError,
    ExecutorHandle,
    Outcome,
    Status,
    ToolCall,
    ToolContext,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_plugins.adapters.foreign import foreign_tool
from toolstile_plugins.adapters.shown import opened, question

PREFIX: Final = "mcp__toolstile__"
"""The beginning of the names of our tools in Claude Code."""
WAIT: Final = 7 * 24 * 3600.0
"""Seconds that a hook may take: the approver may be a person."""
_CALLS: Final = "claude_session_calls"
AGAIN: Final = "Call it again, unchanged: the session then waits for the answer."

Hooks = dict[HookEvent, list[HookMatcher]]


@dataclass(frozen=True)
class Paused:
    """A call for which a session is paused; `dataclasses.asdict` of it is plain JSON.

    Args:
        session_id: The session, for `ClaudeAgentOptions(resume=...)`.
        id: The id of the call.
        name: Its tool.
        arguments: Its arguments.
        question: The question to a person, the diff where there is one, and the token of the
            answer; give that only to those who may decide.
    """

    session_id: str
    id: str
    name: str
    arguments: Mapping[str, Any] = field(repr=False)
    question: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class Read:
    """The answer to a call of our own tools, as its model reads it."""

    text: str
    is_error: bool


class ToolFailed(Exception):
    """A tool of Claude Code has failed; the model reads its own words."""


class Carried:
    """The handler of a call that Claude Code carries out: it runs until the result is there."""

    def __init__(self, data: PreToolUseHookInput) -> None:
        loop = asyncio.get_running_loop()
        self.admitted: asyncio.Future[dict[str, Any]] = loop.create_future()
        self.result: asyncio.Future[Any] = loop.create_future()
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.cancellation = Cancellation()
        self.whose = data["session_id"], data.get("agent_id")

    async def run(self, arguments: dict[str, Any], _: ToolContext) -> Any:
        """Say that the call may be carried out, and with what arguments; return its result."""
        if not self.admitted.done():  # a call that met a conflict runs again
            self.admitted.set_result(arguments)
        return await asyncio.shield(self.result)


class SessionCalls:
    """The calls of all sessions over one executor."""

    def __init__(self, tools: ExecutorHandle) -> None:
        self.tools = tools
        self.paused: dict[str, Paused] = {}
        self.answers: dict[str, tuple[str, GivenAnswer]] = {}
        """Tokens and answers of people, by the ids of the calls."""
        self._carried: dict[str, Carried] = {}
        self._dispatched: dict[str, Read] = {}
        """The answers to calls that were dispatched before our server was asked."""
        self._repeatable: dict[str, Outcome] = {}
        """Calls that wait for a person, until the model repeats them."""
        self._deferred: dict[str, str] = {}
        """The call for which a session pauses: Claude Code keeps one."""
        self._decided: dict[str, asyncio.Future[None]] = {}
        self._stops: dict[str, str] = {}
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
            # At the end of a turn's calls or of a subagent, and at the next prompt: a call that
            # was not carried out by then will not be.
            "PostToolBatch": [self._end_left],
            "SubagentStop": [self._end_left],
            "UserPromptSubmit": [self._end_left],
        }
        matchers = {
            event: [HookMatcher(hooks=hooks, timeout=WAIT, on_failure="block")]
            for event, hooks in events.items()
        }
        return cast("Hooks", matchers)

    # --- Our tools

    async def read(self, call: ToolCall) -> Read:
        """Return the answer to a call of our own tools."""
        if (dispatched := self._dispatched.pop(call.id, None)) is not None:
            return dispatched
        ended = await self._ended(call)
        if isinstance(ended, Read):
            return ended
        if ended.status is Status.PENDING and self._is_hooked:
            self._repeatable[_key(call.name, call.arguments)] = ended
            return Read(f"{ended.text} {AGAIN}", is_error=True)
        return Read(ended.text, ended.is_error)

    async def _ended(self, call: ToolCall) -> Outcome | Read:
        try:
            if (answered := self.answers.pop(call.id, None)) is None:
                return await self.tools.adispatch(call)
            return await self.tools.aresume(call, *answered)
        except VisibilityExpansionRequired as request:
            return Read(opened(self.tools, request), is_error=False)
        except Exception as error:  # noqa: BLE001 - it ends the session, which is another process
            self._stops[call.id] = str(error)
            return Read(str(error), is_error=True)

    async def _before_own(self, data: PreToolUseHookInput) -> SyncHookJSONOutput:
        """Pause the session for a call that a person has to approve."""
        name, call_id = data["tool_name"].removeprefix(PREFIX), data["tool_use_id"]
        if call_id in self.answers:
            return {}
        if (outcome := self._repeatable.pop(_key(name, data["tool_input"]), None)) is not None:
            return self._defer(data, outcome)
        # Any other is dispatched once it has passed the hooks and the permissions of others.
        offered = self.tools.prompt.tools(self.tools.session)
        if not any(tool.name == name and tool.requires_confirmation for tool in offered):
            return {}
        ended = await self._ended(ToolCall(name, data["tool_input"], id=call_id))
        if isinstance(ended, Outcome):
            if ended.status is Status.PENDING:
                return self._defer(data, ended)
            ended = Read(ended.text, ended.is_error)
        self._dispatched[call_id] = ended
        return {}

    # --- Their tools

    async def _admit(self, data: PreToolUseHookInput) -> SyncHookJSONOutput:
        """Let Claude Code carry a call out, perhaps with edited arguments, or refuse it."""
        carried = Carried(data)
        call = ToolCall(
            data["tool_name"],
            data["tool_input"],
            id=data["tool_use_id"],
            cancellation=carried.cancellation,
        )
        try:
            foreign_tool(self.tools, call.name, f"foreign_tools([{call.name!r}, ...])")
        except DefinitionError as error:
            return _deny(str(error))
        if (answered := self.answers.pop(call.id, None)) is None:
            dispatched = self.tools.adispatch(call, using=carried.run)
        else:
            dispatched = self.tools.aresume(call, *answered, using=carried.run)
        carried.outcome = asyncio.ensure_future(dispatched)
        try:
            either = (carried.outcome, carried.admitted)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            carried.cancellation.cancel()
            raise
        if not carried.outcome.done():
            self._carried[call.id] = carried
            edited = carried.admitted.result()
            return {} if edited == call.arguments else _decide(updatedInput=edited)
        if (raised := carried.outcome.exception()) is not None:
            return _stop(str(raised)) | _deny(str(raised))
        outcome = carried.outcome.result()
        if outcome.status is Status.PENDING:
            return self._defer(data, outcome)
        if outcome.success:  # a ledger or a recording has answered
            return _deny(f"{call.name} was done before and did not run again: {outcome.text}")
        return _deny(outcome.text)

    # --- Hooks

    async def _before(self, given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        data = cast("PreToolUseHookInput", given)
        call_id, session_id = data["tool_use_id"], data["session_id"]
        decided = self._decided[call_id] = asyncio.get_running_loop().create_future()
        try:
            if self._deferred.get(session_id) == call_id:  # the session goes on
                del self._deferred[session_id]
                self.paused.pop(call_id, None)
            is_own = data["tool_name"].startswith(PREFIX)
            return await (self._before_own(data) if is_own else self._admit(data))
        finally:
            decided.set_result(None)

    async def _hold(self, _: HookInput, call_id: str | None, __: HookContext) -> HookJSONOutput:
        """Refuse a call that waits where Claude Code passes over `defer`, as without streaming."""
        if (decided := self._decided.pop(call_id or "", None)) is not None:
            await decided
        if (waits := self.paused.get(call_id or "")) is None:
            return {}
        reason = waits.question["question"]
        return _decide(permissionDecision="ask", permissionDecisionReason=reason)

    def _defer(self, data: PreToolUseHookInput, outcome: Outcome) -> SyncHookJSONOutput:
        call_id, session_id = data["tool_use_id"], data["session_id"]
        if "agent_id" in data:
            return _deny(
                f"{outcome.text} A subagent cannot wait: leave that call to the main agent."
            )
        if self._deferred.setdefault(session_id, call_id) != call_id:
            return _deny(f"{outcome.text} Another call is waiting: retry this one after that.")
        name, arguments = data["tool_name"], data["tool_input"]
        self.paused[call_id] = Paused(session_id, call_id, name, arguments, question(outcome))
        return _decide(permissionDecision="defer", permissionDecisionReason=outcome.text)

    async def _after(self, given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        """End a call with its result; tell the model where that does not hold."""
        data = cast("PostToolUseHookInput | PostToolUseFailureHookInput", given)
        call_id = data["tool_use_id"]
        if (carried := self._carried.pop(call_id, None)) is None:
            why = self._stops.pop(call_id, None)
            return {} if why is None else _stop(why)
        response: Any = None
        if data["hook_event_name"] == "PostToolUse":
            response = data["tool_response"]
            carried.result.set_result(response)
        elif data.get("is_interrupt"):
            carried.cancellation.cancel()
        else:
            carried.result.set_exception(ToolFailed(data["error"]))
        await asyncio.wait([carried.outcome])
        return _after(carried, response)

    async def _end_left(self, given: HookInput, _: str | None, __: HookContext) -> HookJSONOutput:
        data = cast("Mapping[str, Any]", given)
        if data["hook_event_name"] == "UserPromptSubmit":  # nobody waits for an answer any more
            self._deferred.pop(data["session_id"], None)
        batch = [call["tool_use_id"] for call in data.get("tool_calls", ())]
        whose = data["session_id"], data.get("agent_id")
        theirs = [call_id for call_id, carried in self._carried.items() if carried.whose == whose]
        await self._end(batch if data["hook_event_name"] == "PostToolBatch" else theirs)
        return {}

    async def _end(self, call_ids: Iterable[str]) -> None:
        """End calls that nobody carries out any more, as cancelled."""
        left = [self._carried.pop(call_id) for call_id in call_ids if call_id in self._carried]
        for carried in left:
            carried.cancellation.cancel()
        if left:
            await asyncio.wait([carried.outcome for carried in left])

    @asynccontextmanager
    async def connected(self, _: object) -> AsyncGenerator[None]:
        """Last as long as a session is connected: with the last one, all calls have ended."""
        self._connections += 1
        try:
            yield
        finally:
            self._connections -= 1
            if not self._connections:
                await self._end(list(self._carried))


def _key(name: str, arguments: Any) -> str:
    """Return what a call and its repetition have in common."""
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def _after(carried: Carried, response: Any) -> SyncHookJSONOutput:
    if (error := carried.outcome.exception()) is not None:
        return _stop(str(error))
    outcome = carried.outcome.result()
    if outcome.is_error and not isinstance(outcome.event.error, ToolFailed):
        return {"decision": "block", "reason": outcome.text}
    if outcome.success and outcome.result.value != response:  # a plugin has replaced it
        output = {"hookEventName": "PostToolUse", "updatedToolOutput": outcome.result.value}
        return {"hookSpecificOutput": cast("Any", output)}
    return {}


def _decide(**decision: Any) -> SyncHookJSONOutput:
    return {"hookSpecificOutput": cast("Any", {"hookEventName": "PreToolUse", **decision})}


def _deny(reason: str) -> SyncHookJSONOutput:
    return _decide(permissionDecision="deny", permissionDecisionReason=reason)


def _stop(reason: str) -> SyncHookJSONOutput:
    return {"continue_": False, "stopReason": reason}


def calls_of(tools: ExecutorHandle) -> SessionCalls:
    """Return the calls over an executor; its server and its hooks share them."""
    # They are kept by the executor: they hold it, so a mapping of all would let none of them go.
    kept: dict[str, SessionCalls] = vars(tools)
    if _CALLS not in kept:
        kept[_CALLS] = SessionCalls(tools)
    return kept[_CALLS]
