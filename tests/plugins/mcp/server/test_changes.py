"""A client over a pipe is told when there are other tools than before, as its era has it."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import PromptListChangedNotification, ToolListChangedNotification

from .conftest import COMMAND, LEGACY, LONGEST, MODERN

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.long_if(transport="stdio", mode="legacy"),
]

GROWING = Path(__file__).with_name("growing.py")


def _client(mode, folder, **options):
    parameters = StdioServerParameters(
        command=str(COMMAND), args=["--plugin", str(GROWING), "mcp"], cwd=folder
    )
    return Client(parameters, mode=mode, **options)


async def _names(client):
    return {each.name for each in (await client.list_tools()).tools}


async def test_a_client_of_the_older_era_is_told(tmp_path):
    tools, prompts = anyio.Event(), anyio.Event()

    async def hear(message):
        if isinstance(message, ToolListChangedNotification):
            tools.set()
        elif isinstance(message, PromptListChangedNotification):
            prompts.set()

    async with _client(LEGACY, tmp_path, message_handler=hear) as client:
        assert client.server_capabilities.tools.list_changed
        assert client.server_capabilities.prompts.list_changed
        assert "grown" not in await _names(client)
        await client.call_tool("grow", {})
        with anyio.fail_after(LONGEST):
            await tools.wait()
            await prompts.wait()
        assert "grown" in await _names(client)


async def test_a_client_of_the_newer_era_that_listens_is_told(tmp_path):
    async with _client(MODERN, tmp_path) as client:
        assert client.server_capabilities.tools.list_changed
        with anyio.fail_after(LONGEST):
            async with client.listen(tools_list_changed=True) as events:
                assert "grown" not in await _names(client)
                await client.call_tool("grow", {})
                async for event in events:
                    assert isinstance(event, ToolsListChanged)
                    break
        assert "grown" in await _names(client)


@pytest.mark.long
async def test_of_resources_nobody_is_promised_to_be_told(mode, tmp_path):
    (tmp_path / "toolstile.toml").write_text("[plugins.vfs]\n")
    async with _client(mode, tmp_path) as client:
        resources = client.server_capabilities.resources
    assert resources is not None
    assert not resources.subscribe
    assert not resources.list_changed
