"""Clients of the protocol that are trusted say what the user asks for; others are ignored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from toolstile import Host, Settings
from toolstile_hookspecs import ConfigurationError

from .conftest import COMMAND, MODERN, Served, serving

pytestmark = [pytest.mark.slow, pytest.mark.anyio]

PLUGIN = '''
from toolstile_hookspecs import MarkdownSection, ToolContext, hookimpl, tool

@tool
def send(to: str) -> str:
    """Send a letter."""
    return "sent"

@tool
def order(cake: str) -> str:
    """Order a cake."""
    return "ordered"

@tool
def pay(to: str) -> str:
    """Pay somebody."""
    return "paid"

@tool
def look(*, context: ToolContext) -> str:
    """Look at the call, and at the request; a test before this one may trace."""
    keys = sorted({*context.tool_call.meta} - {"traceparent"})
    return f"{keys} {[turn.text for turn in context.request]}"

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="mail", title="Mail", tools=[send, order, pay, look])]
'''
RULES = """
[[policies]]
kind = "asked_for"
otherwise = "deny"
words = {send = "send"}

[[policies]]
kind = "rule"
tools = ["order"]
when = "!request.exists(said, 'order' in words(said))"
effect = "deny"
reason = "Nobody asked for a cake."

[[policies]]
kind = "provenance"
otherwise = "deny"
arguments = {pay = {to = "request"}}
"""
TOKENS = """
[plugins.mcp.serve.tokens]
ada = "of-ada"
bert = "of-bert"
"""
ASKED = {"toolstile/request": ["Hello.", "Send it, order a cake, and pay Ann."]}
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "send": ("sent", "no request was given", {"to": "ann"}),
    "order": ("ordered", "the user's request is unknown", {"cake": "rye"}),
    "pay": ("paid", "no request was given", {"to": "ann"}),
}


def files(folder: Path, settings: str) -> Path:
    (folder / "toolstile.toml").write_text(f"[plugins.mcp.serve]\n{settings}\n{RULES}")
    (folder / "plugin.py").write_text(PLUGIN)
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = files(tmp_path_factory.mktemp("served"), f'request_from = ["ada"]\n{TOKENS}')
    with serving(plugin=folder / "plugin.py", cwd=folder) as served:
        yield served


@asynccontextmanager
async def piped(folder: Path, settings: str) -> AsyncIterator[Client]:
    args = ["--plugin", str(files(folder, settings) / "plugin.py"), "mcp"]
    parameters = StdioServerParameters(command=str(COMMAND), args=args, cwd=folder)
    async with Client(parameters, mode=MODERN) as client:
        yield client


async def text_of(client: Client, name: str, meta: Any = None, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments, meta=meta or {})
    return result.content[0].text  # type: ignore[union-attr]


async def test_a_client_that_is_named_is_believed_for_the_rest_of_its_session(served, mode):
    async with served.client(mode, token="of-ada") as client:
        meta = {**ASKED, "toolstile/session": "new"}
        begun = await client.call_tool("send", {"to": "ann"}, meta=meta)
        assert begun.content[0].text == "sent"
        later = {"toolstile/session": begun.meta["toolstile/session"]} if begun.meta else {}
        for name, (done, _, arguments) in CALLS.items():
            assert await text_of(client, name, later, **arguments) == done


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("token", ["of-ada", "of-bert"])
async def test_without_a_request_or_of_another_client_rules_fail_closed(served, name, token):
    async with served.client(MODERN, token=token) as client:
        meta = {"toolstile/session": "new"} if token == "of-ada" else ASKED
        assert CALLS[name][1] in await text_of(client, name, meta, **CALLS[name][2])


async def test_a_text_that_is_said_again_counts_once_and_no_tool_sees_the_key(tmp_path):
    async with piped(tmp_path, 'request_from = ["*"]') as client:
        first = await text_of(client, "look", {"toolstile/request": "Hello.", "own": 1})
        assert first == "['own'] ['Hello.']"
        more = {"toolstile/request": ["Hello.", "Go.", "Go."]}
        assert await text_of(client, "look", more) == "[] ['Hello.', 'Go.']"


async def test_over_a_pipe_nobody_is_believed_by_default(tmp_path):
    async with piped(tmp_path, "") as client:
        assert "no request was given" in await text_of(client, "send", ASKED, to="ann")
        assert await text_of(client, "look", {"toolstile/request": 3}) == "[] []"


@pytest.mark.parametrize("said", [3, "", " ", {}, ["a", 3], [["a"]]], ids=repr)
async def test_what_is_not_a_text_is_refused(tmp_path, said):
    async with piped(tmp_path, 'request_from = ["*"]') as client:
        with pytest.raises(MCPError, match="must be a text of the user, or a list of these"):
            await client.call_tool("look", {}, meta={"toolstile/request": said})


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["aad"], r"the token 'aad' is unknown; did you mean 'ada'\? Name one"),
        (["carl"], r"the token 'carl' is unknown\. Name one"),
        ("ada", "request_from"),
        (True, "request_from"),
    ],
)
def test_a_client_that_there_is_not_keeps_the_host_from_opening(names, told):
    serve = {"request_from": names, "tokens": {"ada": "of-ada"}}
    with (
        pytest.raises(ConfigurationError, match=told),
        Host(settings=Settings(plugins={"mcp": {"serve": serve}}), discover={"mcp"}),
    ):
        pass
