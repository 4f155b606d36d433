"""Stands in for an MCP client: of `mcp add`, connects to the server as the client then would."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def parsed(words: list[str]) -> argparse.Namespace:
    """Return what the words after `mcp add` say, in the clients' common way."""
    parser = argparse.ArgumentParser(prog="mcp add", allow_abbrev=False)
    parser.add_argument("--scope", choices=("local", "project", "user"))
    parser.add_argument("--transport", choices=("stdio", "http"), default="stdio")
    parser.add_argument("--header", default="")
    parser.add_argument("--url")
    parser.add_argument("--bearer-token-env-var")
    parser.add_argument("name")
    parser.add_argument("rest", nargs="*")
    mark = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:mark])
    given.rest += words[mark + 1 :]
    return given


async def connected(given: argparse.Namespace) -> int:
    """Connect, and return how many tools there are."""
    url = given.url or (given.rest[0] if given.transport == "http" else None)
    if url is None:
        command, *arguments = given.rest
        server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
        async with Client(server) as client:
            return len((await client.list_tools()).tools)
    name, _, value = given.header.partition(": ")
    headers = {name: value} if name else {}
    if given.bearer_token_env_var:
        headers["Authorization"] = f"Bearer {os.environ[given.bearer_token_env_var]}"
    async with (
        httpx2.AsyncClient(headers=headers) as web,
        Client(streamable_http_client(url, http_client=web)) as client,
    ):
        return len((await client.list_tools()).tools)


def main() -> int:
    """Add a server; fail where it has no tools."""
    words = sys.argv[1:]
    if words[:2] != ["mcp", "add"]:
        print(f"cannot stand in for {shlex.join(words)}", file=sys.stderr)
        return 2
    tools = asyncio.run(connected(parsed(words[2:])))
    print(f"{tools} tools")
    return 0 if tools else 1


if __name__ == "__main__":
    sys.exit(main())
