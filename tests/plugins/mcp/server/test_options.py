"""Options that other plugins give to `toolstile mcp`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from toolstile_plugins.record import RecordFile

from .conftest import COMMAND, LONGEST, MODERN

pytestmark = pytest.mark.slow


@pytest.mark.slow
@pytest.mark.anyio
async def test_it_serves_a_directory_and_records_what_is_done_there(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "prices.ini").write_text("rye = 4.20\n")
    options = ["--workspace", "shop", "--record", "calls.jsonl", "--trace", "spans.jsonl"]
    parameters = StdioServerParameters(command=str(COMMAND), args=["mcp", *options], cwd=tmp_path)

    async with Client(parameters, mode=MODERN) as client:
        read = await client.call_tool("read_file", {"path": "prices.ini"})

    assert "rye = 4.20" in read.content[0].text
    recorded = [json.loads(line) for line in (tmp_path / "calls.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in recorded] == ["begin", "call", "end"]
    assert "execute_tool read_file" in (tmp_path / "spans.jsonl").read_text()


def test_whoever_looks_after_servers_leaves_the_record_alone(tmp_path: Path) -> None:
    (tmp_path / "toolstile.toml").write_text('[plugins.record]\nfile = "calls.jsonl"\n')
    served = RecordFile(tmp_path / "calls.jsonl")
    try:
        done = subprocess.run(
            [COMMAND, "mcp", "check"],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    finally:
        served.close()

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("No MCP servers are configured: write [plugins.mcp.servers.NAME].\n")
