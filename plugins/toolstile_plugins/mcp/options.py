"""The command `toolstile mcp`, its options and its help; what runs it is imported when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from toolstile_hookspecs import Command, HostHandle
from toolstile_plugins.mcp.gateway import options as gateway
from toolstile_plugins.mcp.sdk import needed_by
from toolstile_plugins.mcp.settings import McpSettings

NAME: Final = "mcp"

_EXAMPLES: Final = f"""\
examples:
  toolstile mcp                          serve over standard input and output
  toolstile mcp --http 127.0.0.1:8000    serve over streamable HTTP, at /mcp
{gateway.EXAMPLES}"""


def offered_commands() -> list[Command]:
    """Return the command."""
    return [
        Command(
            NAME,
            "serve the tools to any MCP client, and look after the servers behind them",
            run=_run,
            configure=_configure,
            defaults={"approver": NAME},
        )
    ]


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="serve over streamable HTTP there, not over standard input and output; elsewhere "
        "than on this machine's own address, clients need a token",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="the bearer token that clients must show over HTTP; without it, TOOLSTILE_MCP_TOKEN",
    )
    gateway.add_commands(parser)


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    settings: McpSettings = host.settings(NAME)
    if args.what is not None:
        return gateway.run_command(host, settings, args)
    # The SDK is heavy, and no other command needs it.
    with needed_by("toolstile mcp"):
        from toolstile_plugins.mcp.server.command import serve
    return serve(host, settings.serve, args)
