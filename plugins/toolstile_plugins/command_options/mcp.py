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
  toolstile mcp --http 127.0.0.1:8000 --console    with the pages for people beside it
  toolstile mcp check                    connect to the servers behind the gateway
  toolstile mcp check --accept files     their tools are as they should be: ask no more
  toolstile mcp import .mcp.json         a client's servers as tables for toolstile.toml
"""


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
    parser.add_argument(
        "--console",
        action="store_true",
        help="with --http on this machine's own address: serve the console there as well, to the "
        "person who opens the address that is printed",
    )
    _add_commands(parser)


def _add_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands beneath `toolstile mcp`; without one of them it serves."""
    what = parser.add_subparsers(metavar="check|import", dest="what", required=False)
    check = add_subcommand(
        what,
        "check",
        "connect to the servers behind the gateway",
        {
            "toolstile mcp check": "connect to all; the exit status is 1 when one is amiss",
            "toolstile mcp check files github": "connect to these two",
            "toolstile mcp check --accept files": "its tools are as they should be: ask no more",
        },
    )
    check.add_argument("server", nargs="*", metavar="SERVER", help="only these")
    check.add_argument(
        "--accept",
        action="store_true",
        help="approve their tools as they are now, also those that have changed",
    )
    taking = add_subcommand(
        what,
        "import",
        "print a client's MCP servers as tables of toolstile.toml",
        {
            "toolstile mcp import .mcp.json": "print them, with ${NAME} for what may be secret",
            "toolstile mcp import .mcp.json >> toolstile.toml": "add them to the configuration",
        },
    )
    taking.add_argument("file", type=Path, metavar="FILE", help="the client's configuration")
    taking.add_argument(
        "--with-values",
        action="store_true",
        help="print the values of variables and headers, which may be secret, not ${NAME}",
    )


MCP: Final = Arguments(
    "mcp", _configure, "serve the tools to any MCP client, and look after the servers behind them"
)
ARGUMENTS: Final = (MCP,)
