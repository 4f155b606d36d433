"""The command `toolstile wrap` for one server."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from toolstile_hookspecs import ConfigurationError, HostHandle
from toolstile_plugins.cli_support import needing
from toolstile_plugins.inbox.cli import wrapped
from toolstile_plugins.mcp.settings import ServerSettings, prefix_of
from toolstile_plugins.mcp.wrap.files import wrap

_LAUNCHERS: Final = frozenset(
    {
        *("bunx", "deno", "docker", "node", "npx", "pipx", "pnpx", "podman", "python", "python3"),
        *("uv", "uvx", "dlx", "exec", "run", "tool"),
    }
)
"""The words before the name of a server."""
_DECORATION: Final = re.compile(r"^(mcp[-_])?(server[-_])?|(\.\w+|@.*|[-_]mcp|[-_]server)+$")
CONFIGURED: Final = (
    "`toolstile wrap` reads no configuration. Leave --config out, or put the server behind "
    "`toolstile mcp`: `toolstile mcp import` prints its table."
)
NO_SERVER: Final = (
    "Name one server: `toolstile wrap -- COMMAND [ARGS]` or `toolstile wrap --http URL`. "
    "`toolstile wrap --in FILE` wraps all servers in a client's file."
)
BEGUN: Final = """\
toolstile: {name}: tools that only read run. A person is asked about the others, {asked}.
toolstile: {name}: calls are recorded in {folder}.
toolstile: {name}: the list of tools has one page, and a message over {most} MB ends the server.
"""
AT_CLIENT: Final = "at the client"
ELSE: Final = "at the client or, if it cannot ask, with `toolstile approvals --wrapped list`"


def settings_of(args: argparse.Namespace) -> Mapping[str, Any]:
    """Return the configuration of the host in front of a server."""
    given: dict[str, Any] = {
        "approver": "mcp",
        "plugins.record.folder": str(_folder(args) / "records"),
    }
    # Without the extra that seals questions, only the person at the client is asked.
    if find_spec("cryptography") is not None:
        inbox = {"path": str(wrapped()), "ask": ["mcp"], "wait": "pending"}
        given |= {"approver": "inbox"} | {
            f"plugins.inbox.{key}": value for key, value in inbox.items()
        }
    return given


def run_wrap(host: HostHandle, args: argparse.Namespace) -> int:
    """Run one server behind the host until one side leaves, or wrap a client's servers."""
    if args.config is not None:
        raise ConfigurationError(CONFIGURED)
    if [bool(each) for each in (args.server, args.http, args.file)].count(True) != 1:
        raise ConfigurationError(NO_SERVER)
    if args.file is not None:
        return wrap(args.file)
    with needing("`toolstile wrap` needs the MCP SDK.", "mcp"):
        # Because the SDK is heavy, only the commands that need it import it.
        from toolstile_plugins.mcp.wrap.relay import run_server
    headers: dict[str, str] = {}
    for header in args.header:
        key, colon, value = header.partition(":")
        if not colon or not args.http:
            raise ConfigurationError(f"--header {key}: write 'NAME: VALUE', together with --http.")
        headers[key.strip()] = value.strip()
    words: list[str] = args.server
    settings = ServerSettings(
        command=words[0] if words else None,
        args=tuple(words[1:]),
        url=args.http,
        headers=headers,
        timeout="none",
    )
    name, folder = name_of(args), _folder(args)
    asked = AT_CLIENT if host.state("inbox") is None else ELSE
    most = settings.max_message // 1024 // 1024
    told = BEGUN.format(name=name, asked=asked, folder=folder / "records", most=most)
    sys.stderr.write(told)
    sys.stderr.flush()
    return asyncio.run(run_server(host, name, settings, folder / "tools.json", args.allow))


def name_of(args: argparse.Namespace) -> str:
    """Return the name of the server: the given one, or one from its command or address."""
    if args.name is not None:
        return str(args.name)
    url: str = args.http or ""
    return name_in(args.server) if args.server else urlsplit(url).hostname or "server"


def name_in(command: Sequence[str]) -> str:
    """Return a name for the server that a command starts.

    Example:
        >>> name_in(["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."])
        'filesystem'
    """
    words = [word for word in command if not word.startswith("-")]
    named = (word for word in words if PurePath(word).name not in _LAUNCHERS)
    return _DECORATION.sub("", PurePath(next(named, words[0] if words else "")).name) or "server"


def _folder(args: argparse.Namespace) -> Path:
    """Return the directory of the pins and records of a server."""
    name = name_of(args)
    # Because servers of one name need not be the same, the command or address counts, too.
    told = json.dumps([name, args.server, args.http])
    digest = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return wrapped().parent / f"{prefix_of(name)}{digest}"
