"""Standard input and output: one session, and nothing there but the protocol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters

from toolstile_hookspecs.support.text import extra_remedy

from .conftest import COMMAND, DESK, LONGEST, MODERN, NEWEST

pytestmark = pytest.mark.slow

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def _lines(*messages: object) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in messages)


def _request(number: int, method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.anyio
async def test_all_calls_of_a_process_share_a_session(tmp_path):
    parameters = StdioServerParameters(command=str(COMMAND), args=["--plugin", str(DESK), "mcp"])
    async with Client(parameters, mode=MODERN) as client:
        assert client.protocol_version == NEWEST
        await client.call_tool("keep_note", {"text": "one"})
        counted = await client.call_tool("keep_note", {"text": "two"})
    assert counted.content[0].text == "2"


def test_every_line_is_the_protocols_whatever_plugins_and_handlers_print(tmp_path):
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    talk = _lines(
        _request(1, "initialize", **INITIALIZE),
        initialized,
        _request(2, "tools/call", name="chatter", arguments={}),
    )
    process = subprocess.Popen(
        [COMMAND, "--plugin", DESK, "mcp"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(talk)
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    rest, printed = process.communicate(timeout=LONGEST)
    assert [each["id"] for each in answers] == [1, 2]
    assert rest == ""
    assert process.returncode == 0
    for text in ("while it is imported", "printed", "written", "descriptor"):
        assert text in printed


@pytest.mark.parametrize("command", [["mcp"], ["mcp", "check"]])
def test_without_the_sdk_it_says_what_to_install(tmp_path, command):
    for name in ("mcp", "mcp_types"):
        blocked = f"raise ModuleNotFoundError('gone', name={name!r})\n"
        (tmp_path / f"{name}.py").write_text(blocked)
    done = subprocess.run(
        [sys.executable, "-m", "toolstile", *command],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 2
    needed = f"`toolstile {' '.join(command)}` needs the MCP SDK."
    told = f"{needed} {extra_remedy('mcp')}."
    assert done.stderr == f"toolstile: error: {told}\n"


def test_on_a_terminal_it_says_that_it_waits_for_a_client(tmp_path):
    (tmp_path / "toolstile.toml").write_text("[plugins.planning]\n")
    ours, its = os.openpty()
    try:
        process = subprocess.Popen(
            [COMMAND, "mcp"],
            cwd=tmp_path,
            stdin=its,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        printed, rest = process.communicate(timeout=LONGEST)
    finally:
        os.close(its)
        os.close(ours)
    assert said == (
        "Waiting for an MCP client on standard input, which is a terminal; clients start this "
        "command themselves. Ctrl-C ends it.\n"
    )
    assert (printed, rest) == ("", "")


def test_to_a_client_it_says_nothing_of_waiting(tmp_path):
    (tmp_path / "toolstile.toml").write_text("[plugins.planning]\n")
    done = subprocess.run(
        [COMMAND, "mcp"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


CLOSING = """
import os, sys
from toolstile_hookspecs import MarkdownSection, hookimpl, tool

@tool
def close_all() -> str:
    "Close all there is, as a program does that becomes a daemon."
    os.closerange(3, 1024)
    return "closed"

@tool
async def close_all_on_the_loop() -> str:
    "Close all there is, on the loop that serves."
    os.closerange(3, 1024)
    return "closed"

@tool
def close_standard_streams() -> str:
    "Close the three streams that every program has."
    sys.stdout.close()
    for number in range(3):
        os.close(number)
    return "closed"

@hookimpl
def toolstile_sections():
    return [
        MarkdownSection(
            key="closing",
            title="Closing",
            tools=[close_all, close_all_on_the_loop, close_standard_streams],
        )
    ]
"""


@pytest.fixture
def closing(tmp_path):
    """A server whose tools close descriptors, after `initialize`."""
    (tmp_path / "closing.py").write_text(CLOSING)
    process = subprocess.Popen(
        [COMMAND, "--plugin", tmp_path / "closing.py", "mcp"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(_lines(_request(1, "initialize", **INITIALIZE)))
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["id"] == 1
    process.stdin.write(_lines({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if not stream.closed:
            stream.close()


@pytest.mark.parametrize("name", ["close_all", "close_all_on_the_loop"])
def test_a_server_whose_descriptors_a_tool_has_closed_ends(closing, name):
    """The client, which still holds its ends of the pipes, must not wait for good."""
    closing.stdin.write(_lines(_request(2, "tools/call", name=name, arguments={})))
    closing.stdin.flush()
    assert closing.wait(LONGEST) != 0
    assert closing.stdout.read() == ""


def test_a_tool_may_close_the_standard_streams(closing):
    for number in (2, 3):
        request = _request(number, "tools/call", name="close_standard_streams", arguments={})
        closing.stdin.write(_lines(request))
        closing.stdin.flush()
        assert json.loads(closing.stdout.readline())["id"] == number
    closing.stdin.close()
    closing.wait(LONGEST)
