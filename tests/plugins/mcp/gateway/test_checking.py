"""`toolstile mcp check` connects to each server and says which tools need attention."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from toolstile_cli.main import main

from .raw_http import serving

pytestmark = pytest.mark.slow

RAW = Path(__file__).parent / "raw_server.py"


@pytest.fixture
def check(tmp_path, capsys, monkeypatch):
    """Check servers that speak by hand, by their names and modes."""
    monkeypatch.chdir(tmp_path)

    def check(*arguments, more="", **modes):
        lines = [
            f"[plugins.mcp.servers.{name}]\ncommand = {json.dumps(sys.executable)}\n"
            f"args = {json.dumps([str(RAW), mode, str(tmp_path)])}\n"
            for name, mode in modes.items()
        ]
        file = tmp_path / "toolstile.toml"
        file.write_text("\n".join([*lines, more]))
        status = main(["--config", str(file), *arguments])
        return status, capsys.readouterr().out

    return check


def test_servers_are_shown_in_a_table(check):
    status, printed = check("mcp", "check", one="plain")
    assert status == 0
    heading, row = printed.splitlines()
    assert heading.split()[:3] == ["server", "protocol", "tools"]
    assert row.split() == ["one", "2025-11-25", "1", "nothing"]


def test_in_a_pipe_no_line_is_broken_or_ends_with_blanks(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    file = tmp_path / "other.toml"
    file.write_text('[plugins.mcp.servers.shop]\ncommand = "shop"\nargs = ["${SHOP_TOKEN}"]\n')
    assert main(["--config", str(file), "mcp", "check"]) == 1
    heading, row = capsys.readouterr().out.splitlines()
    assert [heading, row] == [heading.rstrip(), row.rstrip()]
    assert "names the environment variable SHOP_TOKEN, which is not set; set it" in row


def test_a_directory_that_is_not_there_is_not_taken_for_the_program(check):
    lines = ["[plugins.mcp.servers.one]", f"command = {json.dumps(sys.executable)}", 'cwd = "gone"']
    printed = check("mcp", "check", more="\n".join(lines))[1]
    assert "cannot be reached: the directory gone to start it in does not exist" in printed


def test_what_is_to_be_looked_at_is_told(check, tmp_path):
    assert check("mcp", "check", one="changing")[0] == 0
    (tmp_path / "changed").touch()
    status, printed = check("--json", "mcp", "check", one="changing", two="unseen")
    assert status == 1
    one, two = map(json.loads, printed.splitlines())
    assert one["changed"] == {"say": "description"}
    assert one["tools"] == ["one_say"]
    assert "\x1b" not in printed
    assert set(two["leftOut"].values()) == {"its name holds characters that cannot be seen"}

    status, printed = check("--json", "mcp", "check", "one", "--accept", one="changing")
    assert status == 0
    assert json.loads(printed)["changed"] == {}
    assert check("mcp", "check", one="changing")[0] == 0


def test_a_tool_that_is_configured_and_not_there_is_told(check):
    more = '[plugins.mcp.servers.one.tools.sya]\nconsequence = "high"\n'
    status, printed = check("mcp", "check", more=more, one="plain")
    assert status == 1
    assert "sya is configured, but the server has no such tool; did you mean 'say'?" in printed
    status, printed = check("--json", "mcp", "check", more=more, one="plain")
    assert [*json.loads(printed)["misnamed"]] == ["sya"]


@pytest.mark.long
def test_a_server_of_501_tools_offers_500_and_that_is_told(check):
    status, printed = check("mcp", "check", one="throng")
    assert status == 1
    assert "has more than 500 tools, and the first 500 are offered; raise max_tools" in printed
    status, printed = check("--json", "mcp", "check", one="throng")
    assert len(json.loads(printed)["tools"]) == 500
    assert json.loads(printed)["cut"].startswith("has more than 500 tools")


def test_of_a_tool_that_does_not_fit_the_protocol_it_is_told_where(check):
    status, printed = check("--json", "mcp", "check", one="odd")
    assert status == 1
    found = json.loads(printed)
    assert found["error"] is None
    assert found["leftOut"] == {
        **{f"number {number}": "it is not an object with a name" for number in range(14, 19)},
        "text": "its definition does not fit the protocol: inputSchema.type: Input should be "
        "'object'",
        "listed": "its definition does not fit the protocol: inputSchema: Input should be a valid "
        "dictionary or instance of InputSchema",
        "misnamed": "its definition does not fit the protocol: inputSchema.properties.a.dict"
        "[str,any]: Input should be a valid dictionary",
    }


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("endless", "the list stands still at the cursor 'more'"),
        ("numbered", "the list has no end after 200 pages"),
        ("cut_short", "page 2 of the list cannot be read: the list is lost"),
    ],
)
def test_of_a_list_without_an_end_the_rest_is_told_to_be_left_out(check, mode, why):
    status, printed = check("mcp", "check", one=mode)
    assert status == 1
    assert f"the rest is left out: {why}" in printed


def test_a_server_that_is_not_there_is_told_of(check, tmp_path):
    file = tmp_path / "other.toml"
    file.write_text('[plugins.mcp.servers.gone]\ncommand = "no-such-program-here"\n')
    assert main(["--config", str(file), "mcp", "check"]) == 1


@pytest.mark.parametrize("over", ["pipes", "http"])
def test_what_is_configured_of_a_server_is_told_to_nobody(tmp_path, capfd, over):
    """Neither when it says it itself, nor when it is what is wrong."""
    file = tmp_path / "other.toml"
    says = "import os, sys; sys.exit('no such key: ' + os.environ['DEMO_KEY'])"
    lines = {
        "pipes": [
            f"command = {json.dumps(sys.executable)}",
            f"args = ['-c', {json.dumps(says)}]",
            'env = { DEMO_KEY = "swordfish" }',
        ],
        "http": [
            'url = "http://127.0.0.1:9/mcp"',
            'headers = { Authorization = "Bearer sword\\nfish" }',
        ],
    }[over]
    file.write_text("\n".join(["[plugins.mcp.servers.shut]", *lines]))
    assert main(["-v", "--config", str(file), "--json", "mcp", "check"]) == 1
    checked = capfd.readouterr()
    assert ("it said: no such key: ***" in checked.out) is (over == "pipes")
    assert main(["--config", str(file), "call", "shut_open", "{}"]) != 0
    called = capfd.readouterr()
    assert "the MCP server shut cannot be reached" in called.err
    assert "it said" not in called.err
    assert "fish" not in "".join([*checked, *called])


def test_no_log_holds_what_is_secret_of_an_address(tmp_path, capfd):
    file = tmp_path / "other.toml"
    with serving("shut") as url:
        file.write_text(f'[plugins.mcp.servers.shut]\nurl = "{url}?key=swordfish"\n')
        assert main(["-v", "--config", str(file), "mcp", "check"]) == 1
    logged = capfd.readouterr().err
    assert f"POST {url}?***" in logged
    assert "swordfish" not in logged


def test_an_unknown_server_is_an_error_that_names_the_known(check, capsys):
    assert check("mcp", "check", "two", one="plain")[0] != 0
