"""The command `toolstile mcp`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import needing, subcommands

if TYPE_CHECKING:
    from toolstile_hookspecs import Command, HostHandle
    from toolstile_plugins.mcp.settings import McpSettings

NAME: Final = "mcp"

_EXAMPLES: Final = """\
examples:
  toolstile mcp                          serve over standard input and output
  toolstile mcp --http 127.0.0.1:8000    serve over streamable HTTP, at /mcp
  toolstile mcp --http 127.0.0.1:8000 --console    also serve the console
  toolstile mcp check                    connect to the servers behind the gateway
  toolstile mcp check --accept files     accept the current tools of a server
  toolstile mcp import .mcp.json         print a client's servers as tables for toolstile.toml
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="serve over streamable HTTP, not over standard input and output; clients need a token "
        "unless the address is a loopback address",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="the file with the bearer token for clients over HTTP (default: TOOLSTILE_MCP_TOKEN)",
    )
    parser.add_argument(
        "--console",
        action="store_true",
        help="with --http on a loopback address: also serve the console there, to the person who "
        "opens the printed address",
    )
    # Without one of these commands, `toolstile mcp` serves.
    add = subcommands(parser, required=False)
    check = add(
        "check",
        "connect to the servers behind the gateway",
        ("", "connect to all; the exit status is 1 if one needs attention"),
        ("files github", "connect to these two"),
        ("--accept files", "accept the current tools of a server"),
    )
    check.add_argument("server", nargs="*", metavar="SERVER", help="only these servers")
    check.add_argument(
        "--accept",
        action="store_true",
        help="accept the current tools of the servers, also changed tools",
    )
    taking = add(
        "import",
        "print a client's MCP servers as tables of toolstile.toml",
        (".mcp.json", "print them, with ${NAME} for possible secrets"),
        (".mcp.json >> toolstile.toml", "add them to the configuration"),
    )
    taking.add_argument("file", type=Path, metavar="FILE", help="the client's configuration")
    taking.add_argument(
        "--with-values",
        action="store_true",
        help="print the values of variables and headers, possibly secret, instead of ${NAME}",
    )


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    settings: McpSettings = host.settings(NAME)
    if args.what == "import":
        from toolstile_plugins.mcp.gateway.import_config import print_tables

        write = None if args.out is None else args.out.write
        return print_tables(
            args.file, write, with_values=args.with_values, configured=settings.servers
        )
    # Because the SDK is heavy, only the commands that need it import it.
    if args.what == "check":
        with needing("`toolstile mcp check` needs the MCP SDK.", "mcp"):
            from toolstile_plugins.mcp.gateway.check import check
        return check(host.state(NAME), args)
    with needing("`toolstile mcp` needs the MCP SDK.", "mcp"):
        from toolstile_plugins.mcp.server.command import serve
    return serve(host, settings.serve, args)


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="mcp",
            help="serve the tools to MCP clients, and check the servers behind the gateway",
            run=_run,
            configure=_configure,
            defaults={"approver": NAME},
            # A check connects to the servers; a host that only looks does not.
            purpose=lambda args: (
                "serve" if args.what is None else "call" if args.what == "check" else "look"
            ),
        )
    ]
