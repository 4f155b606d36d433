"""The arguments of `toolstile worker`."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments

_EXAMPLES: Final = """\
examples:
  toolstile worker --tools shop.tools                   run the tools of a module
  toolstile worker --tools shop reports --concurrency 8  those of two, eight calls at once
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
        help="how many calls run at once, each in a process of its own (4)",
    )


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return number


WORKER: Final = Arguments(
    "worker", _configure, "run calls of tools in this process, for hosts that send them"
)
ARGUMENTS: Final = (WORKER,)
