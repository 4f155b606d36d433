"""The official Inspector's command line sees the tools and calls them, over both transports."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.node import Npm

from .conftest import COMMAND, DESK, serving

pytestmark = pytest.mark.long

INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
CONFIGURATION = '[plugins.vfs]\nroot = "shop"\n'
TOKEN = "the-inspectors-token"

#: It gives a busy machine a minute to start the server; by itself it waits for 15 s.
PATIENT = ("--connect-timeout", "60000")

#: How the Inspector ends when a tool's result is an error.
TOOL_IS_ERROR = 5


@dataclass(frozen=True)
class Answer:
    """The output of the Inspector: a result, or its message about an error."""

    status: int
    result: dict[str, Any]
    said: str

    @property
    def text(self) -> str:
        """The one text of a tool's result."""
        (content,) = self.result["content"]
        return content["text"]


@dataclass(frozen=True)
class Inspector:
    """The Inspector, in front of one server.

    Args:
        npm: What has it.
        home: Its home directory.
        before: What leads it to a server over HTTP.
        after: The command of a server over stdio.
    """

    npm: Npm
    home: Path
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def ask(self, *arguments: str) -> Answer:
        program = self.npm.program("mcp-inspector", INSPECTOR)
        done = subprocess.run(
            [program, "--cli", *self.before, *arguments, *PATIENT, *self.after],
            cwd=self.home,
            env=self.npm.environment(HOME=str(self.home)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr
        return Answer(done.returncode, json.loads(done.stdout), done.stderr)

    def call(self, tool: str, *arguments: str) -> Answer:
        given = ("--tool-arg", *arguments) if arguments else ()
        return self.ask("--method", "tools/call", "--tool-name", tool, *given)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A directory with a configuration, and with a workspace in which a file lies."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "prices.ini").write_text("rye = 4.20\n")
    (tmp_path / "toolstile.toml").write_text(CONFIGURATION)
    return tmp_path


@pytest.fixture(params=["stdio", pytest.param("http", marks=pytest.mark.long)])
def inspector(request: pytest.FixtureRequest, npm: Npm, shop: Path) -> Iterator[Inspector]:
    home = shop / "home"
    home.mkdir()
    if request.param == "stdio":
        server = (str(COMMAND), "--plugin", str(DESK), "mcp")
        configuration = ("--config", str(shop / "toolstile.toml"))
        yield Inspector(npm, home, after=("--", *server, *configuration))
        return
    with serving(cwd=shop, env={**os.environ, "TOOLSTILE_MCP_TOKEN": TOKEN}) as served:
        token = ("--header", f"Authorization: Bearer {TOKEN}")
        yield Inspector(npm, home, before=(served.url, "--transport", "http", *token))


def test_it_lists_the_tools_and_finds_their_schemas_portable(inspector: Inspector) -> None:
    listed = inspector.ask("--method", "tools/list", "--strict")

    assert listed.status == 0, listed.said
    tools = {tool["name"]: tool for tool in listed.result["tools"]}
    assert {"add", "read_file", "write_file"} <= tools.keys()
    assert tools["add"]["inputSchema"]["required"] == ["a", "b"]
    assert tools["add"]["annotations"]["readOnlyHint"] is True
    assert tools["delete_file"]["annotations"]["destructiveHint"] is True


def test_it_calls_a_tool(inspector: Inspector) -> None:
    read = inspector.call("read_file", "path=prices.ini")

    assert read.status == 0, read.said
    assert "rye = 4.20" in read.text
    assert read.result["structuredContent"]["content"] == "rye = 4.20\n"
    assert not read.result.get("isError")


def test_it_is_told_why_a_call_is_denied(inspector: Inspector, shop: Path) -> None:
    denied = inspector.call("write_file", "path=prices.ini", "content=free", "overwrite=true")

    assert denied.status == TOOL_IS_ERROR
    assert denied.result["isError"] is True
    assert "was not read" in denied.text
    assert "Call read_file on it first" in denied.text
    assert (shop / "shop" / "prices.ini").read_text() == "rye = 4.20\n"


def test_it_is_told_what_went_wrong_in_a_handler(inspector: Inspector) -> None:
    failed = inspector.call("fail", "text=The oven is cold. Heat it, then retry.")

    assert failed.status == TOOL_IS_ERROR
    assert failed.result["isError"] is True
    assert failed.text == "The oven is cold. Heat it, then retry."
