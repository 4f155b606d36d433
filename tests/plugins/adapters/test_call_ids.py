"""In each framework, an id that a model gives again names another call."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.adapters.test_mutants import ADAPTERS

from toolstile import Session
from toolstile.testing import Hosts
from toolstile_hookspecs import IdempotencyConfig, ToolCall, ToolInvoked, tool

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_call_of_an_id_that_was_used_in_another_run_is_made(
    name: str, toolstile_host: Hosts, tmp_path: Path
) -> None:
    charged: list[int] = []

    @tool(idempotency=IdempotencyConfig(scope="call"))
    def charge(euros: int) -> str:
        """Charge the card."""
        charged.append(euros)
        return f"Receipt {len(charged)}."

    agent = import_module(f"tests.plugins.adapters.test_{name}").AGENT()
    script = [[ToolCall("charge", {"euros": 5}, id="c1")]]

    async def runs(tools: Any) -> list[str]:
        return [(await agent.run(tools, script)).read["c1"].text for _ in range(2)]

    host = toolstile_host("ledger", settings={"ledger": {"path": tmp_path / "ledger.db"}})
    with host.executor(tools=[charge]) as tools:
        read = asyncio.run(runs(tools))
        calls = [event.call for event in tools.session[ToolInvoked].all()]

    assert charged == [5, 5]
    assert read == ["Receipt 1.", "Receipt 2."]
    assert [call.provider_id for call in calls] == ["c1", "c1"]
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize(
    ("ids", "sessions", "effects"),
    [
        (("toolu_01A", "toolu_01A"), ("s", "s"), 1),
        (("toolu_01A", "toolu_01B"), ("s", "s"), 2),
        (("toolu_01A", "toolu_01A"), ("s", "its fork"), 2),
        (("call_0", "call_0"), ("s", "s"), 2),
    ],
)
def test_a_call_that_claude_code_makes_again_is_recognised_by_session_and_id(
    ids: tuple[str, str],
    sessions: tuple[str, str],
    effects: int,
    toolstile_host: Hosts,
    tmp_path: Path,
) -> None:
    """Of a session that goes on in another process after the first died: ours has the same id."""
    claude_agent = import_module("toolstile_plugins.adapters.claude_agent")
    known = [
        replace(each, idempotency=IdempotencyConfig(scope="call"))
        for each in claude_agent.foreign_tools(["Charge"])
    ]

    async def made(tools: Any, call_id: str, session: str) -> bool:
        hooks = claude_agent.governed(["Charge"], tools)
        data: dict[str, Any] = {
            "session_id": session,
            "tool_use_id": call_id,
            "tool_name": "Charge",
        }
        data |= {"tool_input": {"euros": 5}, "tool_response": "Charged."}
        (before,), (after,) = hooks["PreToolUse"], hooks["PostToolUse"]
        decided = await before.hooks[0]({**data, "hook_event_name": "PreToolUse"}, None, {})
        if decided:
            assert "was done before" in str(decided)
            return False
        await after.hooks[0]({**data, "hook_event_name": "PostToolUse"}, None, {})
        return True

    count = 0
    for call_id, session in zip(ids, sessions, strict=True):
        host = toolstile_host("ledger", settings={"ledger": {"path": tmp_path / "ledger.db"}})
        with host.executor(tools=known, session=Session(id="desk-7")) as tools:
            count += asyncio.run(made(tools, call_id, session))
    assert count == effects
