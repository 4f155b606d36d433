"""Coding agents: their events as neutral ones, and neutral decisions as their answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from toolstile_hookspecs import ConfigurationError, ForeignTool
from toolstile_hookspecs.tools import Category
from toolstile_plugins.cli_support import PROBE

Kind = Literal["before", "after", "batch", "end", "stop", "gone", "settings", "other"]

Place = tuple[str, str, str]
"""A session, an agent in it ("" for the main one), and the id of a call: forks of a session and
its agents have equal ids."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of an agent; calls have a tool, its arguments and an id.

    Attributes:
        kind: `before` and `after` a call, after the calls of a `batch`, at the `end` of a sub-agent
            or before a prompt, when the main agent will `stop`, when the session is `gone`, before
            changed `settings` count, or `other`.
        name: Its name in the agent.
        session: The id of the session.
        agent: The id of the sub-agent; "" for the main agent.
        cwd: The working directory of the agent.
        types: Whether the agent can type into a running command without an event.
        asks: Whether the agent can ask the person at its terminal, `defer` whether it can end its
            run until the call is approved.
        again: Whether the turn was kept from its end before.
        text: The last words of the turn.
        given_id: The id that the agent gave to the call; "" without one.
        ids: The calls of a batch.
        file: The file of changed settings.
        process: The process of the agent; 0 if it is unknown.
        client: The process that has sent the event.
        turn: The agent's id of the turn, if it gives one.
        transcript: The file with the session's calls.
    """

    kind: Kind
    name: str
    session: str
    agent: str = ""
    cwd: str = ""
    id: str = ""
    given_id: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    response: Any = None
    error: str | None = None
    interrupted: bool = False
    types: bool = False
    asks: bool = False
    defers: bool = False
    again: bool = False
    text: str = ""
    ids: tuple[str, ...] = ()
    file: str = ""
    process: int = 0
    client: int | None = None
    turn: str = ""
    transcript: str = ""

    @property
    def folder(self) -> str:
        """The working directory of its command."""
        given = self.arguments.get("dir_path") or self.arguments.get("directory")
        return os.path.join(self.cwd, str(given)) if given else self.cwd  # noqa: PTH118 - as text

    @property
    def place(self) -> Place:
        """The place of its call."""
        return self.session, self.agent, self.id


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The answer to an event; without a verdict, the agent's own permissions decide.

    Attributes:
        verdict: The verdict on a call that has not begun, or `block` for anything else.
        reason: The reason, for the model.
        arguments: The changed arguments; None for the model's own.
        output: A result in place of the tool's; None for the tool's own.
        context: A text for the model beside the result.
    """

    verdict: Literal["", "allow", "ask", "defer", "deny", "block"] = ""
    reason: str = ""
    arguments: Mapping[str, Any] | None = None
    output: Any = None
    context: str = ""


NOTHING: Final = Decision()
_NONE: Final[Mapping[str, str]] = {}

_HOMES: Final = {"CLAUDE_CONFIG_DIR": ".claude", "CODEX_HOME": ".codex", "GEMINI_CLI_HOME": ""}
"""The variables that name the folders of agents, and the usual places beneath the home."""
_PATH: Final = {"type": "string", "format": "path"}
_TEXT: Final = {"type": "string"}
ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "Bash": {"command": _TEXT},
    "Edit": {"file_path": _PATH, "old_string": _TEXT, "new_string": _TEXT},
    "MultiEdit": {"file_path": _PATH},
    "NotebookEdit": {"notebook_path": _PATH},
    "Read": {"file_path": _PATH},
    "WebFetch": {"url": _TEXT},
    "WebSearch": {"query": _TEXT},
    "Write": {"file_path": _PATH, "content": _TEXT},
    "read_file": {"file_path": _PATH},
    "replace": {"file_path": _PATH, "old_string": _TEXT, "new_string": _TEXT},
    "run_shell_command": {"command": _TEXT},
    "write_file": {"file_path": _PATH, "content": _TEXT},
}
"""The arguments that policies read and each call has, by tools; calls may have others."""

COMMANDS: Final = ("Bash", "Monitor", "run_shell_command")
"""The tools whose argument `command` is a line of a shell."""

_NOTED: Final = re.compile(r"^toolstile: exit code [1-9]\d*\n?\Z", re.MULTILINE)
_NOTING: Final = (
    "(\n{}\n)\n"
    "toolstile=$?; [ $toolstile = 0 ] || printf '\\ntoolstile: exit code %s\\n' $toolstile\n"
    "exit $toolstile"
)
_EXIT_CODE: Final = re.compile(
    r"^Exit Code: -?[1-9]\d*$(?=(?:\n[A-Z][\w ]+: .*)*(?:\n</.*)?(?:\n\n\[System\] .*)?\Z)",
    re.MULTILINE,
)


def _named(*, read: str, write: str, side_effect: str) -> dict[str, Category]:
    """Return the categories of tools by their names."""
    return {
        **dict.fromkeys(read.split(), "read"),
        **dict.fromkeys(write.split(), "write"),
        **dict.fromkeys(side_effect.split(), "side_effect"),
    }


def stand_in(name: str, agent: str, category: Category, **more: Any) -> ForeignTool:
    """Return the tool for calls of an agent's tool; the agent's own timeouts apply."""
    properties = ARGUMENTS.get(name, {})
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    text = f"{name}, a tool of {agent}."
    return ForeignTool(name, text, schema, category=category, timeout=None, **more)


class Agent:
    """A coding agent: its events come as JSON, and an answer in JSON decides.

    The form is that of Claude Code, which Codex has taken over.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    program: ClassVar[str]
    files: ClassVar[Mapping[str, str]]
    """The files of its hooks, by scopes."""
    scope: ClassVar = "project"
    """The place of its hooks that `toolstile init` proposes."""
    categories: ClassVar[Mapping[str, Category]]
    """The categories of its built-in tools, by their names."""
    own: ClassVar = "mcp__toolstile__"
    """The prefix of the tools of our MCP server, whose calls pass our stages there."""
    EVENTS: ClassVar[Mapping[str, Kind]]
    second: ClassVar = 1
    """A second, in the unit of its time limits."""
    note: ClassVar = ""
    """A sentence for the person who installs the hook."""
    refusing: ClassVar[Mapping[str, Any]] = {}
    """The keys of a hook that has the agent refuse the call if the hook fails."""

    def settings_file(self, scope: str, project: Path) -> Path:
        """Return the file of its hooks for a project, the user or the machine."""
        if scope not in self.files:
            told = f"{self.title} runs no hooks of a project. Use --user or --managed."
            raise ConfigurationError(told)
        homes = {name: os.environ.get(name) or Path.home() / _HOMES[name] for name in _HOMES}
        return Path(self.files[scope].format(project=project, **homes))

    def probe(self, folder: Path) -> dict[str, Any]:
        """Return an event of a harmless call."""
        return {
            "hook_event_name": next(iter(self.EVENTS)),
            "session_id": PROBE,
            "cwd": str(folder),
            "tool_use_id": "probe",
            "tool_name": next(name for name, kind in self.categories.items() if kind == "read"),
            "tool_input": {},
        }

    def tools(self) -> Iterator[ForeignTool]:
        """Yield the stand-ins for its built-in tools."""
        for name, category in self.categories.items():
            yield stand_in(name, self.title, category)

    def read(self, data: Mapping[str, Any], variables: Mapping[str, str] = _NONE) -> Event:
        """Return an event, from its JSON and the variables of its hook."""
        name = data["hook_event_name"]
        return Event(
            kind=self.EVENTS.get(name, "other"),
            name=name,
            session=data["session_id"],
            turn=data.get("prompt_id") or data.get("turn_id") or "",
            agent=data.get("agent_id") or "",
            cwd=data.get("cwd", ""),
            id=data.get("tool_use_id", ""),
            given_id=data.get("tool_use_id", ""),
            tool=data.get("tool_name", ""),
            arguments=data.get("tool_input", {}),
            response=data.get("tool_response"),
            error=data.get("error"),
            interrupted=bool(data.get("is_interrupt")),
            text=data.get("last_assistant_message") or "",
            again=bool(data.get("stop_hook_active")),
            ids=tuple(call["tool_use_id"] for call in data.get("tool_calls", ())),
            file=data.get("file_path", ""),
            transcript=data.get("transcript_path") or "",
            process=int(variables.get("CLAUDE_PID") or 0),
        )

    def noting(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return arguments that have a command tell its failure, if the agent does not."""
        return arguments

    def write(self, event: Event, decision: Decision) -> str:
        """Return the answer to an event as text; empty if there is nothing to say."""
        answer = self.answer(event, decision)
        return json.dumps(answer) if answer else ""

    def answer(self, event: Event, decision: Decision) -> dict[str, Any]:
        """Return the answer to an event; empty if there is nothing to say."""
        specific: dict[str, Any] = {}
        if event.kind != "before":
            if decision.verdict == "block":
                return {"decision": "block", "reason": decision.reason}
            if decision.output is not None:
                specific["updatedToolOutput"] = decision.output
            if decision.context:
                specific["additionalContext"] = decision.context
        elif decision.verdict:
            specific["permissionDecision"] = decision.verdict
            specific["permissionDecisionReason"] = decision.reason
        if decision.arguments is not None:
            specific["updatedInput"] = decision.arguments
        return _specific(event, specific)


class ClaudeCode(Agent):
    """Claude Code."""

    name = "claude-code"
    title = "Claude Code"
    program = "claude"
    refusing: ClassVar = {"onFailure": "block"}
    files: ClassVar = {
        "managed": "/etc/claude-code/managed-settings.json",
        "project": "{project}/.claude/settings.json",
        "user": "{CLAUDE_CONFIG_DIR}/settings.json",
    }
    categories: ClassVar = _named(  # also of older versions
        read="BashOutput CronList Glob Grep LS ListAgents ListMcpResourcesTool LSP NotebookRead"
        " Read ReadMcpResourceTool TaskGet TaskList TaskOutput ToolSearch WebFetch WebSearch",
        write="Edit MultiEdit NotebookEdit TaskCreate TaskUpdate TodoWrite Write",
        side_effect="Agent AskUserQuestion Bash EnterPlanMode EnterWorktree ExitPlanMode"
        " ExitWorktree KillShell Monitor SendMessage Skill SlashCommand Task TaskStop Workflow",
    )
    EVENTS: ClassVar = {
        "PreToolUse": "before",
        "PostToolUse": "after",
        "PostToolUseFailure": "after",
        "PostToolBatch": "batch",
        "UserPromptSubmit": "end",
        "Stop": "stop",
        "SubagentStop": "end",
        "SessionEnd": "gone",
        "ConfigChange": "settings",
    }

    def read(self, data: Mapping[str, Any], variables: Mapping[str, str] = _NONE) -> Event:
        event = super().read(data, variables)
        at_terminal = variables.get("CLAUDE_CODE_ENTRYPOINT") == "cli"
        return replace(
            event,
            asks=at_terminal and not event.agent,
            defers=not at_terminal and not event.agent,
        )


class Codex(Agent):
    """Codex: it cannot ask, and types into its commands without an event.

    Because it tells no failures, its commands write their status at the end of their output.
    """

    name = program = "codex"
    title = "Codex"
    files: ClassVar = {"managed": "/etc/codex/hooks.json", "user": "{CODEX_HOME}/hooks.json"}
    scope = "user"
    note = "Codex runs these hooks once you trust them: it asks when it starts."
    categories: ClassVar = _named(
        read="view_image web_search get_goal request_user_input",
        write="create_goal update_goal update_plan",
        side_effect="Bash apply_patch write_stdin close_agent resume_agent send_input spawn_agent"
        " wait_agent",
    )
    EVENTS: ClassVar = {
        "PreToolUse": "before",
        "PostToolUse": "after",
        "UserPromptSubmit": "end",
        "Stop": "stop",
        "SessionEnd": "gone",
    }

    def read(self, data: Mapping[str, Any], variables: Mapping[str, str] = _NONE) -> Event:
        event = super().read(data, variables)
        failed = _NOTED.search(str(event.response)) if event.tool == "Bash" else None
        return replace(event, types=True, error=failed and failed[0].strip())

    def noting(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if tool != "Bash":
            return arguments
        return {**arguments, "command": _NOTING.format(arguments["command"])}


class GeminiCli(Agent):
    """Gemini CLI: its calls have no ids, and failures of commands stand in their texts."""

    name = program = "gemini"
    title = "Gemini CLI"
    files: ClassVar = {
        "managed": "/etc/gemini-cli/settings.json",
        "project": "{project}/.gemini/settings.json",
        "user": "{GEMINI_CLI_HOME}/.gemini/settings.json",
    }
    own = "mcp_toolstile_"
    second = 1000
    categories: ClassVar = _named(
        read="glob google_web_search grep_search list_directory read_file read_many_files"
        " search_file_content list_background_processes read_background_output ask_user"
        " enter_plan_mode exit_plan_mode web_fetch",
        write="complete_task replace save_memory update_topic write_file write_todos",
        side_effect="activate_skill invoke_agent run_shell_command",
    )
    EVENTS: ClassVar = {
        "BeforeTool": "before",
        "AfterTool": "after",
        "BeforeAgent": "end",
        "AfterAgent": "stop",
        "SessionEnd": "gone",
    }

    def read(self, data: Mapping[str, Any], variables: Mapping[str, str] = _NONE) -> Event:
        event = super().read(data, variables)
        response: Mapping[str, Any] = data.get("tool_response") or {}
        # Gemini adds its lines after the output, which may look like them.
        told = str(response.get("llmContent", ""))
        before, _, rest = told.partition(f"Output: {response.get('returnDisplay')}")
        failed = _EXIT_CODE.search(rest or before)
        error = response.get("error") or (failed and failed[0])
        return replace(
            event,
            id=id_of(event.tool, event.arguments),
            error=None if error is None else str(error),
            text=data.get("prompt_response") or "",
        )

    def answer(self, event: Event, decision: Decision) -> dict[str, Any]:
        if decision.verdict in {"deny", "block"}:
            refusal = "deny" if event.kind == "before" else "block"
            return {"decision": refusal, "reason": decision.reason}
        specific: dict[str, Any] = {}
        if decision.arguments is not None:
            specific["tool_input"] = decision.arguments
        if decision.context:
            specific["additionalContext"] = decision.context
        return _specific(event, specific)


def id_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return an id in place of the agent's: equal calls have the same one."""
    return sha256(json.dumps([tool, arguments], sort_keys=True).encode()).hexdigest()


def _specific(event: Event, answer: Mapping[str, Any]) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event.name, **answer}} if answer else {}


AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent for agent in (ClaudeCode(), Codex(), GeminiCli())
}
