"""The command `toolstile mcp`; its implementation is imported late."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_hookspecs import Command, HostHandle
from toolstile_plugins.cli_support import needing
from toolstile_plugins.command_options.mcp import MCP
from toolstile_plugins.mcp.settings import McpSettings

NAME: Final = "mcp"


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    settings: McpSettings = host.settings(NAME)
    if args.what == "import":
        from toolstile_plugins.mcp.gateway.import_config import print_tables

        write = None if args.out is None else args.out.write
        return print_tables(
            args.file, write, with_values=args.with_values, configured=settings.servers
        )
    # The SDK is heavy, and no other command needs it.
    if args.what == "check":
        with needing("`toolstile mcp check` needs the MCP SDK.", "mcp"):
            from toolstile_plugins.mcp.gateway.check import check
        return check(host, settings, args)
    with needing("`toolstile mcp` needs the MCP SDK.", "mcp"):
        from toolstile_plugins.mcp.server.command import serve
    return serve(host, settings.serve, args)


COMMAND: Final = Command(
    MCP.command,
    MCP.help,
    run=_run,
    configure=MCP.configure,
    defaults={"approver": NAME},
    # A check connects to the servers, which a host that only looks does not.
    purpose=lambda args: (
        "serve" if args.what is None else "call" if args.what == "check" else "look"
    ),
)
