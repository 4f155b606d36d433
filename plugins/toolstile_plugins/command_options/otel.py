"""The argument of commands that make calls: where their spans go."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments


def _add_trace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace",
        metavar="console|otlp|FILE",
        help="export OpenTelemetry spans to standard error, over OTLP, or to a file as JSON Lines "
        "(default: the OTEL_* variables)",
    )


ARGUMENTS: Final = tuple(Arguments(name, _add_trace) for name in ("run", "call", "mcp", "ask"))
