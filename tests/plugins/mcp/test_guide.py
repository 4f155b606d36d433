"""The guide for clients does what it says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from toolstile import Host, ToolCall
from toolstile_plugins.mcp.gateway.import_config import read_servers
from toolstile_plugins.record import verify

from .guide import PLACE, lines_of_clients, server_of, starting_point
from .server.conftest import COMMAND, LONGEST


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the configuration, and with a file in the workspace."""
    (tmp_path / "toolstile.toml").write_text(starting_point())
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("old\n")
    return tmp_path


@pytest.mark.slow
def test_the_configuration_holds_the_model_to_its_rules(place: Path) -> None:
    asked: list[str] = []

    def answer(request) -> bool:
        asked.append(request.tool.name)
        return len(asked) > 1

    path = {"path": "notes.txt"}
    change = ToolCall("write_file", {**path, "content": "new\n", "overwrite": True})
    delete = ToolCall("delete_file", path)
    with Host(config=place / "toolstile.toml", approver=answer) as host, host.executor() as tools:
        rewritten = [tools.dispatch(change)]
        assert tools.dispatch(ToolCall("read_file", path)).success
        rewritten.append(tools.dispatch(change))
        refused = tools.dispatch(delete)
        deleted = []
        for _ in range(6):
            deleted.append(tools.dispatch(delete))
            tools.dispatch(ToolCall("write_file", {**path, "content": "again\n"}))
        looked = [tools.dispatch(ToolCall("list_directory", {})) for _ in range(61)]

    assert [outcome.success for outcome in rewritten] == [False, True]
    assert "Call read_file on it first" in rewritten[0].text
    assert refused.status == "denied"
    assert [outcome.success for outcome in deleted] == [True] * 5 + [False]
    assert [*asked] == ["delete_file"] * len(asked)
    assert [outcome.success for outcome in looked] == [True] * 60 + [False]

    (record,) = (place / "records").iterdir()
    assert verify(record).faults == ()
    assert verify(record).calls == 4 + 2 * 6 + 61


def test_what_the_model_is_ruled_by_lies_out_of_its_reach(place: Path) -> None:
    with Host(config=place / "toolstile.toml") as host, host.executor() as tools:
        for path in ("../toolstile.toml", "../records"):
            assert not tools.dispatch(ToolCall("read_file", {"path": path})).success


@pytest.mark.parametrize("client", sorted(lines_of_clients()))
def test_the_lines_for_clients_are_understood(client: str, tmp_path: Path) -> None:
    file = tmp_path / ("config.toml" if client == "codex" else "config.json")
    file.write_text(lines_of_clients()[client])

    (server,) = read_servers(file)

    assert server.name == "toolstile"
    assert server.notes == ['"toolstile" is Toolstile itself, which is not put behind itself.']


@pytest.mark.slow
@pytest.mark.parametrize("client", sorted(lines_of_clients()))
def test_the_lines_for_clients_start_a_server(client: str, place: Path) -> None:
    server = server_of(client)
    assert server["command"] == "toolstile"
    known = {PLACE: str(place / "toolstile.toml"), "${workspaceFolder}": str(place)}
    arguments = [known.get(each, each) for each in server["args"]]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": client, "version": "1"},
        },
    }
    with subprocess.Popen(
        [COMMAND, *arguments],
        env=os.environ | server.get("env", {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(hello)}\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(LONGEST) == 0

    assert answer["result"]["protocolVersion"] == "2025-06-18"
    assert answer["result"]["serverInfo"]["name"] == "toolstile"
