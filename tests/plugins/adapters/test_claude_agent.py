"""Claude Agent SDK: the real Claude Code that it brings, with a model that follows a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from inspect import signature
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from typing import Any, ClassVar
from weakref import finalize

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SdkMcpTool,
    create_sdk_mcp_server,
    query,
)
from executing.claude_model import played, scripted
from pydantic import SecretStr

from toolstile_hookspecs import ApprovalAnswer, ExecutorHandle, ForeignTool
from toolstile_hookspecs.testing import FrameworkAdapterContract
from toolstile_hookspecs.testing.frameworks import (
    AgentRun,
    FrameworkAgent,
    Functions,
    ModelRead,
    Script,
)
from toolstile_plugins.adapters.claude_agent import (
    Paused,
    answered,
    foreign_tools,
    governed,
    paused,
    toolset,
)

TYPES = {str: "string", int: "integer", SecretStr: "string"}

pytestmark = pytest.mark.slow


def options(folder: str, url: str, **more: Any) -> ClaudeAgentOptions:
    """Return options with which Claude Code asks a model on loopback, and nobody else."""
    environment = {
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HOME": folder,
        "IS_SANDBOX": "1",
    }
    return ClaudeAgentOptions(
        cwd=gettempdir(),  # a session is found by the folder in which it began
        env=environment,
        permission_mode="bypassPermissions",
        setting_sources=[],
        strict_mcp_config=True,
        **more,
    )


class ClaudeAgent(FrameworkAgent):
    """Sessions of Claude Code, whose functions are tools of a server of its own."""

    def __init__(self) -> None:
        self.folder = mkdtemp()
        finalize(self, rmtree, self.folder, ignore_errors=True)

    def foreign_tools(self, functions: Sequence[Callable[..., Any]]) -> list[ForeignTool]:
        made = foreign_tools({f"mcp__desk__{each.__name__}": schema(each) for each in functions})
        names = [each.__name__ for each in functions]
        return [
            replace(tool, name=name, wire_name=tool.name)
            for tool, name in zip(made, names, strict=True)
        ]

    async def run(
        self, tools: ExecutorHandle, script: Script, functions: Functions = None
    ) -> AgentRun:
        return await self._run(tools, script, functions, "go")

    async def resume(
        self,
        tools: ExecutorHandle,
        script: Script,
        state: str,
        answers: Mapping[str, ApprovalAnswer],
        functions: Functions = None,
    ) -> AgentRun:
        kept = json.loads(state)
        self._put(kept["files"])
        call = Paused(**kept["call"])
        answered(call, answers[call.id], tools)
        return await self._run(tools, script, functions, "go on", resume=call.session_id)

    def _put(self, transcripts: Mapping[str, str]) -> None:
        for place, text in transcripts.items():
            (file := Path(self.folder, place)).parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    async def _run(
        self,
        tools: ExecutorHandle,
        script: Script,
        functions: Functions,
        prompt: str,
        **more: Any,
    ) -> AgentRun:
        prefix = "mcp__toolstile__" if functions is None else "mcp__desk__"
        turns = [[replace(call, name=f"{prefix}{call.name}") for call in turn] for turn in script]
        server = toolset(tools) if functions is None else served(functions)
        servers = {"toolstile" if functions is None else "desk": server}
        last: ResultMessage | None = None
        with played(scripted(turns)) as model:
            made = options(self.folder, model.url, mcp_servers=servers, **more)
            async for message in query(prompt=prompt, options=governed(made, tools)):
                if isinstance(message, ResultMessage):
                    last = message
            read = {id_: ModelRead(*answer) for id_, answer in model.read().items()}
        assert last is not None
        if (call := paused(last, tools)) is None:
            return AgentRun(read, last.result)
        folder = Path(self.folder)
        transcripts = (folder / ".claude/projects").rglob("*.jsonl")
        files = {str(file.relative_to(folder)): file.read_text() for file in transcripts}
        state = json.dumps({"call": asdict(call), "files": files})
        return AgentRun(read, None, state, {call.id: call.question})


def served(functions: Sequence[Callable[..., Any]]) -> Any:
    """Return functions as tools of a server of the SDK."""

    def made(function: Callable[..., Any]) -> SdkMcpTool[Any]:
        async def handler(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": await function(**given)}]}

        doc = str(function.__doc__)
        return SdkMcpTool(function.__name__, doc, schema(function), handler)

    return create_sdk_mcp_server("desk", tools=[made(each) for each in functions])


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of a function's arguments."""
    parameters = signature(function, eval_str=True).parameters
    return {
        "type": "object",
        "properties": {name: {"type": TYPES[each.annotation]} for name, each in parameters.items()},
        "required": list(parameters),
        "additionalProperties": False,
    }


class TestClaudeAgent(FrameworkAdapterContract):
    gathers = False
    deadlines = False
    secrets = False
    stops = False
    # Claude Code itself reads "10" as a number where the schema asks for one.
    wrong: ClassVar[Mapping[str, Any]] = {"item": 5, "quantity": "ten", "colour": "red"}

    @pytest.fixture
    def agent(self) -> FrameworkAgent:
        return ClaudeAgent()


AGENT, SUITE = ClaudeAgent, TestClaudeAgent
