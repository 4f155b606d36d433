"""In each framework, an id that a model gives again names another call."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.adapters.test_mutants import ADAPTERS

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
