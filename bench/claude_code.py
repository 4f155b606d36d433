"""Claude Code as its SDK sees it, without a process and a model: it asks for hooks and tools."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, Transport

SESSION = "bench"


class Played(Transport):
    """Answers the SDK, and asks it in the same messages as Claude Code.

    Attributes:
        hooks: The ids of the hooks of each event.
    """

    def __init__(self) -> None:
        self.hooks: dict[str, list[str]] = {}
        self._asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count()

    async def connect(self) -> None:
        """Do nothing."""

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            for event, matchers in (message["request"].get("hooks") or {}).items():
                self.hooks[event] = [id_ for each in matchers for id_ in each["hookCallbackIds"]]
            given = {"hook_on_failure_supported": True}
            told = {
                "subtype": "success",
                "request_id": message["request_id"],
                "response": given,
            }
            await self._asked.put({"type": "control_response", "response": told})
        else:
            told = message["response"]
            self._waiting.pop(told["request_id"]).set_result(told["response"])

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await self._asked.get()

    async def close(self) -> None:
        """Do nothing."""

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        """Do nothing."""

    async def ask(self, **request: Any) -> dict[str, Any]:
        """Ask the SDK; return its answer."""
        id_ = str(next(self._ids))
        answer = self._waiting[id_] = asyncio.get_running_loop().create_future()
        # What a pipe carries is text.
        asked = {"type": "control_request", "request_id": id_, "request": request}
        await self._asked.put(json.loads(json.dumps(asked)))
        return await answer


class Session:
    """A session whose model calls one tool of a server, again and again."""

    def __init__(self, options: ClaudeAgentOptions, server: str, given: Mapping[str, Any]) -> None:
        self._options, self._server, self._arguments = options, server, given
        self._played: Played | None = None
        self._calls = itertools.count()

    async def call(self) -> str:
        """Make a call, with all hooks that the options have; return the text of the result."""
        if (played := self._played) is None:
            played = self._played = Played()
            self._client = ClaudeSDKClient(self._options, played)
            await self._client.connect()
            await self._message(played, "initialize", **_HELLO)
            await self._message(played, "notifications/initialized", id_=None)
        id_ = f"toolu_{next(self._calls)}"
        asked = {
            "session_id": SESSION,
            "tool_use_id": id_,
            "tool_name": f"mcp__{self._server}__add",
            "tool_input": self._arguments,
        }
        await self._hooked(played, "PreToolUse", asked)
        meta = {"claudecode/toolUseId": id_}
        given = {"name": "add", "arguments": self._arguments, "_meta": meta}
        result = (await self._message(played, "tools/call", **given))["result"]
        assert not result.get("isError"), result
        await self._hooked(played, "PostToolUse", {**asked, "tool_response": result["content"]})
        return str(result["content"][0]["text"])

    async def _hooked(self, played: Played, event: str, asked: Mapping[str, Any]) -> None:
        given = {**asked, "hook_event_name": event}
        hooks = [
            played.ask(
                subtype="hook_callback",
                callback_id=id_,
                input=given,
                tool_use_id=asked["tool_use_id"],
            )
            for id_ in played.hooks.get(event, ())
        ]
        # Claude Code runs the hooks of an event side by side.
        for told in await asyncio.gather(*hooks):
            assert not told, told

    async def _message(
        self, played: Played, method: str, *, id_: int | None = 1, **params: Any
    ) -> dict[str, Any]:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if id_ is not None:
            message["id"] = next(self._calls)
        told = await played.ask(subtype="mcp_message", server_name=self._server, message=message)
        response: dict[str, Any] = told["mcp_response"]
        return response


_HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
