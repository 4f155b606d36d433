"""The argument of commands that make calls: the directory that their file tools work in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from toolstile_plugins.command_options.arguments import Arguments


def _add_workspace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workspace",
        type=_directory,
        metavar="DIR",
        help="let the file tools work in this directory, not in memory",
    )


def _directory(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "it names no directory; give one, such as . for where you are"
        )
    path = Path(text).absolute()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no directory {text!r}; make it first")
    return str(path)


ARGUMENTS: Final = tuple(
    Arguments(name, _add_workspace)
    for name in ("run", "call", "replay", "mcp", "ask", "check-done")
)
