"""Claude Agent SDK: our tools as a server of its sessions, and its tools behind our stages.

Claude Code runs in a process of its own and asks over a pipe, call by call: each is dispatched by
itself. Of a tool of Claude Code, the handler is what happens between two of its hooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast, overload

from toolstile_hookspecs import ExecutorHandle, ForeignTool, ToolCall
from toolstile_hookspecs.approval import GivenAnswer
from toolstile_hookspecs.execution.schemas import ToolSchema
from toolstile_plugins.adapters.foreign import FrameworkImport
from toolstile_plugins.adapters.waiting import TOKEN

with FrameworkImport("claude-agent"):
    from claude_agent_sdk import ClaudeAgentOptions, ResultMessage
    from claude_agent_sdk.types import McpSdkServerConfig
    from mcp.server import Server
    from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult

    from toolstile_plugins.adapters.claude_calls import (
        PREFIX,
        Hooks,
        Paused as Paused,  # noqa: PLC0414 - users take it from here
        SessionCalls,
        calls_of,
    )

SERVER: Final = "toolstile"
"""The name of our server in `mcp_servers`."""
CALL_ID: Final = "claudecode/toolUseId"
READ: Final = (
    *("Glob", "Grep", "ListAgents", "ListMcpResourcesTool", "Read", "ReadMcpResourceTool"),
    *("TaskOutput", "ToolSearch", "WebFetch", "WebSearch"),
)
WRITE: Final = ("Edit", "NotebookEdit", "TodoWrite", "Write")
BUILT_IN: Final = (
    *READ,
    *WRITE,
    *("Agent", "AskUserQuestion", "Bash", "EnterPlanMode", "EnterWorktree", "ExitPlanMode"),
    *("ExitWorktree", "Monitor", "SendMessage", "Skill", "Task", "TaskStop", "Workflow"),
)
"""The names of Claude Code's own tools."""

Theirs = Iterable[str] | Mapping[str, Mapping[str, Any]] | ClaudeAgentOptions


# --- Our tools in their agent


def toolset(tools: ExecutorHandle) -> McpSdkServerConfig:
    """Return the tools of an executor for `ClaudeAgentOptions(mcp_servers={"toolstile": ...})`.

    Claude Code lists them once, when a session connects: those of closed sections are there, too.

    Args:
        tools: The executor. Where its hooks are `governed`, a call that waits for a person pauses
            the session.
    """
    return _server(calls_of(tools), is_offering=True)


def _server(calls: SessionCalls, *, is_offering: bool) -> McpSdkServerConfig:
    async def listed(*_: object) -> ListToolsResult:
        shown = _shown(calls.tools) if is_offering else []
        return ListToolsResult.model_validate({"tools": shown})

    async def called(_: object, params: CallToolRequestParams) -> CallToolResult:
        meta = cast("Mapping[str, Any]", params.meta or {})
        told = meta.get(CALL_ID, "")
        read = await calls.read(ToolCall(params.name, params.arguments or {}, provider_id=told))
        content = [{"type": "text", "text": read.text}]
        return CallToolResult.model_validate({"content": content, "isError": read.is_error})

    server = Server(SERVER, lifespan=calls.connected, on_list_tools=listed, on_call_tool=called)
    return McpSdkServerConfig(type="sdk", name=SERVER, instance=server)


def _shown(tools: ExecutorHandle) -> list[dict[str, Any]]:
    places = tools.prompt.places(tools.session)
    closed = [tool for place in places if not place.open for tool in place.section.tools]
    return [
        {
            "name": tool.name,
            "description": (schema := ToolSchema.of(tool)).description,
            "inputSchema": {"type": "object", **schema.parameters},
            # Claude Code makes the read-only calls of a turn side by side, and others in order.
            "annotations": {"readOnlyHint": tool.category == "read"},
            "_meta": {"anthropic/alwaysLoad": True},
        }
        for tool in (*tools.prompt.tools(tools.session), *closed)
        if not isinstance(tool, ForeignTool) or tool.call is not None
    ]


# --- Their tools behind our stages


def foreign_tools(theirs: Theirs = BUILT_IN) -> list[ForeignTool]:
    """Return tools of Claude Code for `host.executor(tools=...)`, under their own names.

    Their categories go by their names, `side_effect` for one that is not known; Claude Code's own
    timeouts hold. The configuration says the rest, as under `[tools.Bash]`.

    Args:
        theirs: Their names, such as `Bash` or `mcp__github__create_issue`; JSON Schemas of their
            arguments by name, where our parse shall hold them, too; or options that name them.
    """
    schemas = _schemas(theirs)
    return [
        ForeignTool(
            name,
            f"{name}, which Claude Code carries out.",
            schemas.get(name, {"type": "object"}),
            category="read" if name in READ else "write" if name in WRITE else "side_effect",
            timeout=None,
        )
        for name in _names(theirs)
    ]


def _schemas(theirs: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", theirs) if isinstance(theirs, Mapping) else {}


def _names(theirs: Theirs) -> Iterable[str]:
    if not isinstance(theirs, ClaudeAgentOptions):
        return theirs
    own = theirs.tools if isinstance(theirs.tools, list) else BUILT_IN
    allowed = (name for name in theirs.allowed_tools if name.startswith("mcp__"))
    return [*own, *(name for name in allowed if not name.startswith(PREFIX))]


@overload
def governed(theirs: ClaudeAgentOptions, tools: ExecutorHandle) -> ClaudeAgentOptions: ...
@overload
def governed(theirs: Iterable[str], tools: ExecutorHandle) -> Hooks: ...
def governed(theirs: Theirs, tools: ExecutorHandle) -> ClaudeAgentOptions | Hooks:
    """Put every call of a session behind the stages of an executor, also those of its subagents.

    The permissions of Claude Code hold as before.

    Args:
        theirs: The options of the session, or the names of its tools.
        tools: An executor that knows them: `host.executor(tools=foreign_tools(theirs))`. A tool
            that it does not know is refused.

    Returns:
        The options with our hooks beside theirs; of names, the hooks for
        `ClaudeAgentOptions(hooks=...)`.
    """
    calls = calls_of(tools)
    hooks = calls.hooks()
    if not isinstance(theirs, ClaudeAgentOptions):
        return hooks
    own = theirs.hooks or {}
    both: Hooks = {event: [*own.get(event, []), *hooks.get(event, [])] for event in own | hooks}
    servers = theirs.mcp_servers
    if isinstance(servers, dict):  # the server tells when the session ends
        servers = {SERVER: _server(calls, is_offering=False), **servers}
    return replace(theirs, hooks=both, mcp_servers=servers)


# --- A person decides


def paused(message: ResultMessage, tools: ExecutorHandle) -> Paused | None:
    """Return the call for which a session is paused, None where it has ended.

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
