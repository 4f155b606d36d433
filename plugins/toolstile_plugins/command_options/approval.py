"""The argument of commands that make calls: how these are approved."""

from __future__ import annotations

import argparse
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments


def _add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--approve",
        choices=["all", "none", "read", "ask"],
        help="approve all calls that need approval, none, only calls of tools that read, or ask "
        "you; by default you are asked if there is a terminal",
    )


ARGUMENTS: Final = tuple(Arguments(name, _add_option) for name in ("run", "call", "replay", "ask"))
