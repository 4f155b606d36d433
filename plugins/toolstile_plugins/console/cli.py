"""The command `toolstile console`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import needing

if TYPE_CHECKING:
    from toolstile_hookspecs import Command, HostHandle

MISSING: Final = "The console needs {name}, which is not installed."

_EXAMPLES: Final = """\
examples:
  toolstile console             print an address that opens the console in a browser once
  toolstile console --port 0    serve the console on any free port
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--port", type=int, help="the port on this machine (default: 8765)")


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    with needing(MISSING, "policies"):
        from toolstile_plugins.console.server import serve
    return serve(host, args.port)


def commands(command: type[Command]) -> list[Command]:
    text = "serve web pages on this machine: pending questions, past calls, and the ledger"
    return [
        command(name="console", help=text, run=_run, configure=_configure, decides=lambda _: True)
    ]
