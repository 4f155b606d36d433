"""`toolstile mcp` serves the tools of the servers that were imported, and nothing beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from .server.conftest import COMMAND, LONGEST

# Its tools are called as those of the built-in workspace are.
SERVER = """\
from mcp.server import MCPServer

server = MCPServer("files", log_level="CRITICAL")

@server.tool()
def read_file(path: str) -> str:
    "Read a file."
    return f"{path} of the server"

@server.tool()
def planning_read_plan() -> str:
    "Read the plan."
    return "the server's plan"

server.run("stdio")
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def imported(tmp_path: Path) -> Path:
    """A folder whose configuration holds what was imported from a client's."""
    (tmp_path / "server.py").write_text(SERVER)
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"files": server}}))
    table = subprocess.run(
        [COMMAND, "mcp", "import", ".mcp.json"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    (tmp_path / "toolstile.toml").write_text(table.stdout)
    return tmp_path


@pytest.mark.slow
@pytest.mark.anyio
async def test_only_what_was_imported_is_served(imported: Path) -> None:
    parameters = StdioServerParameters(command=str(COMMAND), args=["mcp"], cwd=imported)
    async with Client(parameters, mode="legacy") as client:
        tools = sorted(tool.name for tool in (await client.list_tools()).tools)
        assert tools == ["files_planning_read_plan", "files_read_file"]
        # By its own name, too, which nobody else has here.
        for name in ("files_read_file", "read_file"):
            result = await client.call_tool(name, {"path": "a.txt"})
            assert result.content[0].text == "a.txt of the server"
        plan = await client.call_tool("planning_read_plan", {})
        assert plan.content[0].text == "the server's plan"
        capabilities = client.server_capabilities
        assert capabilities.resources is None


@pytest.mark.slow
def test_a_server_without_tools_says_so(tmp_path: Path) -> None:
    served = subprocess.run(
        [COMMAND, "mcp"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=True,
    )
    assert served.stdout == ""
    assert "No tool is served: add --workspace DIR" in served.stderr
