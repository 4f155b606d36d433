"""The command `toolstile worker`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from toolstile_plugins.cli_support import late

if TYPE_CHECKING:
    from toolstile_hookspecs import Command

_EXAMPLES: Final = """\
examples:
  toolstile worker --tools shop.tools                    run the tools of a module
  toolstile worker --tools shop reports --concurrency 8  of two modules, eight calls at once
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    tools_help = "the modules whose tools the worker runs"
    parser.add_argument("--tools", nargs="+", required=True, metavar="MODULE", help=tools_help)
    parser.add_argument(
        "--concurrency",
        type=_positive,
        default=4,
        metavar="N",
        help="how many calls run at once, each in a separate process (default: 4)",
    )


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


def commands(command: type[Command]) -> list[Command]:
    return [
        command(
            name="worker",
            help="run tool calls in this process for other hosts",
            run=late("toolstile_plugins.workers.handlers:run_command"),
            configure=_configure,
            # It reads the configuration of a host that may be running.
            purpose="look",
        )
    ]
