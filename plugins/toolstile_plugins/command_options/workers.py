"""The arguments of `toolstile worker`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments

_EXAMPLES: Final = """\
examples:
  toolstile worker --tools shop.tools                    run the tools of a module
  toolstile worker --tools shop reports --concurrency 8  of two modules, eight calls at once
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--tools",
        nargs="+",
        required=True,
        metavar="MODULE",
        help="the modules whose tools the worker runs",
    )
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


WORKER: Final = Arguments("worker", _configure, "run tool calls in this process for other hosts")
ARGUMENTS: Final = (WORKER,)
