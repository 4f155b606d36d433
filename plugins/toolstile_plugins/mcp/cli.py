"""The command `toolstile mcp`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolstile_plugins.cli_support import late, needing, subcommands

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
_WRAP_EXAMPLES: Final = """\
examples:
  toolstile wrap -- npx -y @modelcontextprotocol/server-filesystem .    run one server
  toolstile wrap --allow 'echo*' -- ./server       let some tools run without a question
  toolstile wrap --http https://example.org/mcp    wrap a server over HTTP
  toolstile wrap --in .mcp.json                    wrap all servers in a client's file
  toolstile wrap --client codex                    wrap them in the file where Codex has them
"""
_UNWRAP_EXAMPLES: Final = """\
examples:
  toolstile unwrap --in .mcp.json    restore the file, or take out our lines if it was edited
  toolstile unwrap --client codex    the same in the file where Codex has its servers
"""
CLIENTS: Final = {
    "claude-code": ".mcp.json",
    "claude-user": "~/.claude.json",
    "codex": "~/.codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "vscode": ".vscode/mcp.json",
    "windsurf": "~/.codeium/windsurf/mcp_config.json",
    "zed": "~/.config/zed/settings.json",
}
"""The files of clients' servers."""


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


def _configure_wrap(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _WRAP_EXAMPLES
    parser.add_argument(
        "server", nargs="*", metavar="COMMAND", help="the server's command, after --"
    )
    parser.add_argument("--http", metavar="URL", help="a server over streamable HTTP in its place")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="with --http: a header; ${NAME} in it is a variable of the environment",
    )
    parser.add_argument("--name", metavar="NAME", help="the server's name in questions and records")
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="TOOL",
        help="run this tool without a question; also a glob",
    )
    _name_file(parser, "in place of a command: wrap the servers in a client's file")


def _configure_unwrap(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _UNWRAP_EXAMPLES
    _name_file(parser, "the client's file")


def _name_file(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--in", dest="file", type=Path, metavar="FILE", help=text)
    parser.add_argument(
        "--client",
        dest="file",
        type=_file_of,
        metavar="NAME",
        help=f"the file where this client has its servers: {', '.join(CLIENTS)}",
    )


def _file_of(client: str) -> Path:
    if client not in CLIENTS:
        raise argparse.ArgumentTypeError(f"{client!r} is not one of {', '.join(CLIENTS)}")
    return Path(CLIENTS[client])


def _wrap_settings(args: argparse.Namespace) -> Mapping[str, Any]:
    if args.server or args.http:
        # Because the parsers need no library, this import is late.
        from toolstile_plugins.mcp.wrap.command import settings_of

        return settings_of(args)
    return {}


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="wrap",
            help="put one MCP server behind rules, or all servers of a client",
            run=late("toolstile_plugins.mcp.wrap.command:run_wrap"),
            configure=_configure_wrap,
            settings=_wrap_settings,
            purpose=lambda args: "serve" if args.server or args.http else "look",
        ),
        command(
            name="unwrap",
            help="take the wrapping out of a client's file",
            run=late("toolstile_plugins.mcp.wrap.files:unwrap"),
            configure=_configure_unwrap,
            purpose="look",
        ),
        command(
            name="mcp",
            help="serve the tools to MCP clients, and check the servers behind the gateway",
            run=_run,
            configure=_configure,
            defaults={"approver": NAME},
            # A person answers in the console, lets stopped calls run, and accepts changed tools.
            decides=lambda words: not {"--console", "--accept"}.isdisjoint(words),
            # A check connects to the servers; a host that only looks does not.
            purpose=lambda args: (
                "serve" if args.what is None else "call" if args.what == "check" else "look"
            ),
        ),
    ]
