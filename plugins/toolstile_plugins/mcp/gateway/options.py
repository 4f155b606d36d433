"""The options of `toolstile mcp check` and `import`: arguments and help.

What runs them is imported when one of them runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from toolstile_hookspecs import HostHandle
from toolstile_plugins.cli_support import add_subcommand
from toolstile_plugins.mcp.sdk import needed_by
from toolstile_plugins.mcp.settings import McpSettings

EXAMPLES: Final = """\
  toolstile mcp check                    connect to the servers behind the gateway
  toolstile mcp check --accept files     their tools are as they should be: ask no more
  toolstile mcp import .mcp.json         a client's servers as tables for toolstile.toml
"""


def add_commands(parser: argparse.ArgumentParser) -> None:
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


def run_command(host: HostHandle, settings: McpSettings, args: argparse.Namespace) -> int:
    """Carry one of the commands out; returns the exit status."""
    if args.what == "import":
        from toolstile_plugins.mcp.gateway.import_config import print_tables

        return print_tables(
            args.file, args.out, with_values=args.with_values, configured=settings.servers
        )
    with needed_by("toolstile mcp check"):
        from toolstile_plugins.mcp.gateway.check import check
    return check(host, settings, args)
