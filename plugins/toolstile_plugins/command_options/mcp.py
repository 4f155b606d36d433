"""The arguments of `toolstile mcp`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments, add_subcommand

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
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
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
    # Add the commands beneath `toolstile mcp`; without one of them it serves.
    what = parser.add_subparsers(metavar="check|import", dest="what", required=False)
    check = add_subcommand(
        what,
        "check",
        "connect to the servers behind the gateway",
        {
            "toolstile mcp check": "connect to all; the exit status is 1 if one needs attention",
            "toolstile mcp check files github": "connect to these two",
            "toolstile mcp check --accept files": "accept the current tools of a server",
        },
    )
    check.add_argument("server", nargs="*", metavar="SERVER", help="only these servers")
    check.add_argument(
        "--accept",
        action="store_true",
        help="accept the current tools of the servers, also changed tools",
    )
    taking = add_subcommand(
        what,
        "import",
        "print a client's MCP servers as tables of toolstile.toml",
        {
            "toolstile mcp import .mcp.json": "print them, with ${NAME} for possible secrets",
            "toolstile mcp import .mcp.json >> toolstile.toml": "add them to the configuration",
        },
    )
    taking.add_argument("file", type=Path, metavar="FILE", help="the client's configuration")
    taking.add_argument(
        "--with-values",
        action="store_true",
        help="print the values of variables and headers, possibly secret, instead of ${NAME}",
    )


MCP: Final = Arguments(
    "mcp", _configure, "serve the tools to MCP clients, and check the servers behind the gateway"
)
ARGUMENTS: Final = (MCP,)
