"""The arguments of `toolstile console`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments

_EXAMPLES: Final = """\
examples:
  toolstile console             print an address that opens the console in a browser once
  toolstile console --port 0    serve the console on any free port
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument("--port", type=int, help="the port on this machine (default: 8765)")


CONSOLE: Final = Arguments(
    "console",
    _configure,
    "serve web pages on this machine: pending questions, past calls, and the ledger",
)
ARGUMENTS: Final = (CONSOLE,)
